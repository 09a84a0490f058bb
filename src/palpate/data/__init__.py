"""palpate.data"""
