from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

name = "meta-llama/Llama-3.2-1B"
model = AutoModelForCausalLM.from_pretrained(name)
training = TrainingArguments(
    output_dir="out",
    num_train_epochs=2,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=32,
)
trainer = Trainer(model=model, args=training)
trainer.train(resume_from_checkpoint=True)
