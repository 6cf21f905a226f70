"""Chat templates of the kinds that models come with, written for the tests."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# Adds a system prompt of its own, as SmolLM2's does.
CHATML_WITH_DEFAULT = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}" + CHATML
)

# Writes the beginning-of-text token and trims contents, as Llama 3.1's does.
LLAMA3 = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)

# Role names are plain text and nothing begins the text, as with Zephyr and TinyLlama.
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

# Puts the system prompt into the first question, trims, and insists on alternation, as Gemma's does.
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
    {%- set first = messages[0]['content'] + '\n\n' %}{% set rest = messages[1:] %}
{%- else %}{% set first = '' %}{% set rest = messages %}{% endif %}
{%- for message in rest %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant') }}
    {%- endif %}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
    {{- '<start_of_turn>' + role + '\n' + (first if loop.first else '') + message['content'] | trim }}
    {{- '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""

# Drops the thinking of earlier replies, as Qwen 3's does.
THINKING = """{%- for message in messages %}
    {%- set content = message['content'] %}
    {%- if message['role'] == 'assistant' and '</think>' in content and not loop.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""

# Drops the thinking of replies before the last question, and can be asked not to think, as Qwen 3's does.
QWEN3 = """{%- set ns = namespace(last=0) %}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message['content'] %}
    {%- if message['role'] == 'assistant' and '</think>' in content and loop.index0 < ns.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""

# Writes a date at the head of every chat, with one of 2024 where none is given, as Llama 3.1's does.
DATED = """{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nToday Date: " + date_string + "\n\n" }}
{{- system_message }}{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""

# The same with a function instead of a variable, down to the second.
CLOCKED = DATED.replace('date_string + "', 'strftime_now("%d %b %Y %H:%M:%S") + "')

# No control tokens at all, as older instruction models have it.
PLAIN_LINES = """{% for message in messages %}
{% if message['role'] == 'user' %}
### Instruction:
{{ message['content'] }}

{% elif message['role'] == 'assistant' %}
### Response:
{{ message['content'] }}

{% else %}
{{ message['content'] }}

{% endif %}
{% endfor %}
{% if add_generation_prompt %}
### Response:
{% endif %}"""

ALL = {
    "chatml": CHATML,
    "chatml_with_default": CHATML_WITH_DEFAULT,
    "llama3": LLAMA3,
    "zephyr": ZEPHYR,
    "gemma": GEMMA,
    "thinking": THINKING,
    "dated": DATED,
    "clocked": CLOCKED,
    "qwen3": QWEN3,
    "plain_lines": PLAIN_LINES,
}
