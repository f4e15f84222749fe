"""Small models of random weights, as a folder for transformers and as GGUF for llama.cpp.

What is written into the GGUF file, and how, is what llama.cpp's convert_hf_to_gguf.py writes for
these architectures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf_adapter import permute_rows
from request_generator import Generator
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM as CausalModel,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3Config,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

import gguf

END = "<|endoftext|>"
VOCABULARY = 700
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
LINEAR = {
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 4,
    "linear_conv_kernel_dim": 4,
}
VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "out_hidden_size": SIZES["hidden_size"],
    "num_position_embeddings": 16,
}
ARCHITECTURES = ("llama", "qwen2", "qwen3", "qwen35")
LAYERS = {"qwen35": 4}
"""Two layers of each kind; of Qwen3.5's four every second has attention, the others are linear."""


def write(folder: Path, architecture: str) -> Path:
    """Write a random model of an architecture, as llama.cpp names it; return its GGUF file."""
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    model = _model(architecture, len(tokenizer), tokenizer.eos_token_id).to(torch.bfloat16)
    for name, parameter in model.named_parameters():
        if "visual" not in name:
            _randomise(name, parameter)
    model.save_pretrained(folder)
    file = folder / "base.gguf"
    text = model.config.get_text_config()
    writer = gguf.GGUFWriter(file, architecture)
    _write_header(writer, text, architecture)
    _write_vocabulary(writer, tokenizer)
    names = gguf.get_tensor_name_map(_gguf_architecture(architecture), text.num_hidden_layers)
    for name, tensor in _converted_tensors(model, architecture):
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, name
        writer.add_tensor(found, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _gguf_architecture(name: str) -> gguf.MODEL_ARCH:
    return next(arch for arch, known in gguf.MODEL_ARCH_NAMES.items() if known == name)


@cache
def _tokenizer() -> Any:
    """Return a byte-level tokenizer of Qwen's kind, made of what the conductor is trained on."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    texts = (f"{e.prompt}\n{e.target}" for e in islice(iter(Generator(1)), 300))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)


def _model(architecture: str, vocabulary: int, end: int) -> Any:
    sizes: dict[str, Any] = {
        **SIZES,
        "num_hidden_layers": LAYERS.get(architecture, 2),
        "vocab_size": vocabulary,
        "bos_token_id": None,
        "eos_token_id": end,
    }
    if architecture == "qwen35":  # it is published with its part for pictures
        rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
        rope["partial_rotary_factor"] = 0.25
        kinds = ["linear_attention", "full_attention"] * 2
        text = sizes | LINEAR | {"rope_parameters": rope, "layer_types": kinds}
        config = Qwen3_5Config(
            text_config=text, vision_config=VISION, tie_word_embeddings=sizes["tie_word_embeddings"]
        )
        return Qwen3_5ForConditionalGeneration(config)
    kind = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}[architecture]
    return CausalModel.from_config(kind(**sizes))


def _randomise(name: str, parameter: Any) -> None:
    """Make a weight matter: fresh ones are so small that an error would hardly be seen."""
    with torch.no_grad():
        if parameter.dim() > 1:
            parameter.normal_(0.0, parameter[0].numel() ** -0.5 * 1.5)
        elif not name.endswith(("A_log", "dt_bias")):
            parameter.add_(torch.randn_like(parameter) * 0.2)


def _write_header(writer: Any, config: Any, architecture: str) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    share = config.rope_parameters.get("partial_rotary_factor", 1.0)
    writer.add_rope_dimension_count(int(config.head_dim * share))
    if architecture == "qwen35":
        writer.add_rope_dimension_sections([*config.rope_parameters["mrope_section"], 0])
        writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)
        writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
        writer.add_ssm_state_size(config.linear_key_head_dim)
        writer.add_ssm_group_count(config.linear_num_key_heads)
        writer.add_ssm_time_step_rank(config.linear_num_value_heads)
        writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)


def _write_vocabulary(writer: Any, tokenizer: Any) -> None:
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    kinds = [
        gguf.TokenType.CONTROL if token == END else gguf.TokenType.NORMAL for token, _ in vocabulary
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)


def _converted_tensors(model: Any, architecture: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the text model's tensors in single precision, as llama.cpp takes them."""
    config = model.config.get_text_config()
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for full_name, tensor in model.state_dict().items():
        if "visual" in full_name or (full_name == "lm_head.weight" and config.tie_word_embeddings):
            continue
        name = full_name.replace("model.language_model.", "model.")
        values = tensor.float()
        if name.endswith(".A_log"):
            values = -values.exp()
        elif name.endswith(".dt_bias"):
            name = name.removesuffix(".dt_bias") + ".dt_proj.bias"
        elif name.endswith("conv1d.weight"):
            values = values.squeeze(1)
        elif _is_centred_at_zero(name, architecture):
            values = values + 1
        array = values.numpy()
        module = name.split(".")[-2]
        if architecture == "llama" and module in heads:
            array = permute_rows(array, heads[module])
        yield name, np.ascontiguousarray(array)


def _is_centred_at_zero(name: str, architecture: str) -> bool:
    """Return whether a norm's weight is what transformers adds 1 to."""
    is_gated = name.endswith("linear_attn.norm.weight")
    return architecture == "qwen35" and name.endswith("norm.weight") and not is_gated
