"""palpate.report"""
