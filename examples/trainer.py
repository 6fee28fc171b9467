"""Train a small Llama with Transformers' Trainer."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def make():
    sizes = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=512, num_attention_heads=4, **sizes))
    rows = torch.randint(0, 512, (640, 32))
    data = [{"input_ids": row, "labels": row} for row in rows]
    options = TrainingArguments(output_dir="out", max_steps=80, save_strategy="no", report_to=[])
    return Trainer(model, options, train_dataset=data)


if __name__ == "__main__":
    make().train()
