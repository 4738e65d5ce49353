import yaml

SETTINGS = "training.yaml"
with open(SETTINGS, "r") as f:
    cfg = yaml.safe_load(f)
with open("result.yaml", "w") as f:
    f.write("epochs: 3")
for epoch in range(cfg["training"]["epochs"]):
    print(f"epoch {epoch + 1}")
