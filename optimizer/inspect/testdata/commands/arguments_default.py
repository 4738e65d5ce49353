import sys

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
for epoch in range(epochs):
    pass
