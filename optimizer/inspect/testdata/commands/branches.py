import json
import os

epochs = json.load(open("settings.json"))["epochs"]
if os.environ.get("SMOKE"): epochs = 1
if os.environ.get("LONG"):
    epochs = 50
elif os.environ.get("SHORT"):
    epochs = 5
for epoch in range(epochs):
    print(epoch)
