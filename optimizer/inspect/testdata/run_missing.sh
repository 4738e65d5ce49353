python3 not_there.py
