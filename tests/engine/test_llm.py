"""The library face: the calls people write for vLLM, unchanged."""

from dataclasses import replace

import pytest

from pagedchat.engine import LLM, SamplingParams
from pagedchat.engine.errors import ConfigError, ModelFileError, RequestError
from pagedchat.engine.llm import find_model
from support.tiny_gguf import TINY
from support.tiny_hf_dir import write_hf_dir
from support.tiny_tokenizers import byte_level_tokenizer, save_directory


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tokenizer = byte_level_tokenizer()
    spec = replace(TINY, vocab_size=tokenizer.num_tokens, max_position=1024)
    folder = write_hf_dir(tmp_path_factory.mktemp("tiny"), spec)
    save_directory(tokenizer, folder)
    return LLM(folder, dtype="float32", device="cpu", num_blocks=64, max_model_len=256)


def test_one_prompt_gives_one_result_with_text_ids_reason_and_metrics(model):
    output = model.generate("Hello", SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))
    assert len(output) == 1
    completion = output[0].outputs[0]
    assert len(completion.token_ids) == 5 and completion.finish_reason == "length"
    assert isinstance(completion.text, str)
    assert output[0].prompt == "Hello"
    assert output[0].metrics.prompt_tokens == len(output[0].prompt_token_ids)
    assert output[0].metrics.completion_tokens == 5


def test_a_list_of_prompts_gives_a_list_in_order_and_equals_each_alone(model):
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    prompts = ["abc", "z", "hello there"]
    together = model.generate(prompts, params)
    assert [one.prompt for one in together] == prompts
    for prompt, one in zip(prompts, together, strict=True):
        again = model.generate(prompt, params)[0]
        assert again.outputs[0].token_ids == one.outputs[0].token_ids
        assert again.metrics.cached_tokens == len(again.prompt_token_ids) - 1


def test_ids_can_be_prompts_and_each_prompt_can_have_its_own_parameters(model):
    params = [SamplingParams(temperature=0, max_tokens=count, ignore_eos=True) for count in (1, 3)]
    short, long = model.generate([[1, 2, 3], [4, 5]], params)
    assert (short.prompt_token_ids, len(short.outputs[0].token_ids)) == ([1, 2, 3], 1)
    assert (long.prompt_token_ids, len(long.outputs[0].token_ids)) == ([4, 5], 3)


def test_log_probabilities_come_with_the_result_if_asked_for(model):
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True, logprobs=2, prompt_logprobs=0)
    (result,) = model.generate([[1, 2, 3]], params)
    told = result.outputs[0].logprobs
    assert [one.token_id for one in told] == result.outputs[0].token_ids
    assert all(one.rank == 1 and one.top[0].logprob == one.logprob and len(one.top) == 2 for one in told)
    assert result.prompt_logprobs[0] is None
    assert [one.token_id for one in result.prompt_logprobs[1:]] == [2, 3]
    (result,) = model.generate([[1, 2, 3]], SamplingParams(max_tokens=2))
    assert result.outputs[0].logprobs is None and result.prompt_logprobs is None


def test_a_prompt_that_cannot_be_served_leaves_nothing_behind(model):
    with pytest.raises(RequestError, match="context holds 256"):
        model.generate([[1, 2], [1] * 300], SamplingParams(max_tokens=4))
    assert not model.engine.has_unfinished()
    assert model.engine.snapshot()["active"] == 0


def test_as_many_parameters_as_prompts_are_needed(model):
    with pytest.raises(RequestError, match="2 prompts came with 1"):
        model.generate(["a", "b"], [SamplingParams()])


def test_training_arguments_and_unknown_settings_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="gradient_checkpointing is a training setting"):
        LLM(tmp_path, gradient_checkpointing=True)
    with pytest.raises(ConfigError, match="no engine setting 'colour'"):
        LLM(tmp_path, colour="blue")


def test_a_model_that_is_nowhere_is_one_sentence(tmp_path):
    with pytest.raises(ModelFileError, match=r"There is no model at .*nowhere\.gguf"):
        LLM(tmp_path / "nowhere.gguf")


def test_a_model_is_found_by_name_in_the_models_folder_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("PAGEDCHAT_MODELS_DIR", str(tmp_path))
    (tmp_path / "tiny.gguf").touch()
    for name in ("tiny.gguf", "tiny"):
        assert find_model(name) == str(tmp_path / "tiny.gguf")
    with pytest.raises(ModelFileError, match="There is no model at other"):
        find_model("other")
