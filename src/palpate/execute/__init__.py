"""palpate.execute"""
