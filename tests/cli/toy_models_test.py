"""Toy models whose files say little, or say it unusually, give the log-probabilities of other loaders; what cannot run is refused in words.

python3 toy_models_test.py KVPAGE CASES KERNELS [NAME ...]     CASES: tests/data/toy_models.json; NAME: only these cases
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import toy_gguf  # noqa: E402

PROGRAM, CASES, KERNELS, ONLY = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
TOLERANCE = 0.0005  # rounding of single precision here and there
DEEP_TOLERANCE = 0.002  # of 62 random layers, which the other two loaders show between them as well


def score(path, table):
    """(exit code, log-probabilities or None, message)"""
    line = json.dumps({"id": "a", "prompt_ids": table["prompt_ids"], "continuation_ids": table["continuation_ids"]})
    command = [PROGRAM, "score", "-m", path, "--input", "-", "--progress", "none", "--kernels", KERNELS, "--kv-type", "f32", "-t", "1"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=120, check=False)
    seen = [t["logprob"] for t in json.loads(done.stdout)["continuation"]] if done.returncode == 0 else None
    return done.returncode, seen, done.stderr.strip()


def fault(case, table, right, folder):
    """Why the program is wrong about a case, or nothing."""
    path = os.path.join(folder, case["name"] + ".gguf")
    toy_gguf.write(path, *toy_gguf.build(case))
    code, seen, message = score(path, table)
    os.remove(path)
    if "refused" in case:
        lacks = [text for text in case["refused"] if text not in message]
        return "" if code == 3 and not lacks and "damaged" not in message else "exit %d, without %s: %s" % (code, lacks, message)
    if seen is None:
        return "exit %d: %s" % (code, message)
    wanted = right[case.get("like", case["name"])]
    worst = max(abs(a - b) for a, b in zip(seen, wanted))
    deep = case.get("model", {}).get("layers", 0) > 20
    return "" if worst <= (DEEP_TOLERANCE if deep else TOLERANCE) else "off by %.5f: %s" % (worst, seen)


def main():
    with open(CASES, encoding="utf-8") as file:
        table = json.load(file)
    right = {c["name"]: c["logprobs"] for c in table["cases"] if "logprobs" in c}
    cases = [c for c in table["cases"] if not ONLY or c["name"] in ONLY]
    if not cases:
        sys.exit("no such case")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            why = fault(case, table, right, folder)
            wrong += why != ""
            if why:
                print("%s: %s" % (case["name"], why))
    print("%d of %d toy models right, kernels %s" % (len(cases) - wrong, len(cases), KERNELS))
    sys.exit(wrong > 0)


main()
