"""A model of Hugging Face transformers with its own attention and loss, and with Tunesmith's: logits, loss, gradients, text.

python api/python/examples/transformers_model.py    # bf16 on a GPU; float32 on the CPU. The weights are random: no download
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import tunesmith.torch.transformers as integration  # registers attn_implementation="tunesmith"

device = "cuda" if torch.cuda.is_available() else "cpu"
size = {"hidden_size": 1024, "layers": 8, "seq": 1024} if device == "cuda" else {"hidden_size": 64, "layers": 2, "seq": 24}


def model(implementation: str) -> LlamaForCausalLM:
    """Return the model with the same weights each time."""
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=size["hidden_size"],
        intermediate_size=2 * size["hidden_size"],
        num_hidden_layers=size["layers"],
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=implementation,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(device, torch.bfloat16 if device == "cuda" else torch.float32)


tokens = torch.randint(512, (2, size["seq"]), generator=torch.Generator().manual_seed(1)).to(device)
with_tunesmith, without = model("tunesmith"), model("sdpa")
integration.use_loss(with_tunesmith)
results = [one(tokens, labels=tokens) for one in (with_tunesmith, without)]
for result in results:
    result.loss.backward()
gradients = [one.model.layers[0].self_attn.q_proj.weight.grad.float() for one in (with_tunesmith, without)]
logits = [result.logits.float() for result in results]
texts = [
    one.generate(tokens[:1, :8], max_new_tokens=8, do_sample=False, pad_token_id=0)[0, 8:]
    for one in (with_tunesmith, without)
]
print(f"loss        {results[0].loss.item():.4f} with Tunesmith, {results[1].loss.item():.4f} without")
print(f"logits      largest difference {(logits[0] - logits[1]).abs().max():.1e} of {logits[1].abs().max():.1e}")
print(f"gradient    largest difference {(gradients[0] - gradients[1]).abs().max():.1e} of {gradients[1].abs().max():.1e}")
print(f"next tokens {texts[0].tolist()} with Tunesmith, {texts[1].tolist()} without")
