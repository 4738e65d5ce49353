NUM = 4 * 5
for ep in range(1, NUM + 1):
    for step in range(100):
        pass
