"""palpate.audits"""
