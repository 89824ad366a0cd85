"""A verdict that another process reaches, so that this one, a judged kernel's, never holds the expected answers.
`python -m etalon._apart CAPTURE HOW`: the judge; HOW is JSON, and so is what it prints."""
import json
import os
import subprocess
import sys
import tempfile

from . import Error, _call, _lib


def judge(call, contract, quick, require_explained):
    with tempfile.TemporaryDirectory(prefix="etalon-") as folder:
        path = os.path.join(folder, "call.safetensors")
        call.write(path)
        how = {"contract": contract, "quick": quick, "require_explained": require_explained, "ops": list(_lib.ops())}
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        paths = [here] + [p for p in [os.environ.get("PYTHONPATH")] if p]
        done = subprocess.run([sys.executable, "-m", "etalon._apart", path, json.dumps(how)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    try:
        said = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Error(f"the judge ended with {done.returncode}: {last}", code=4) from None
    if "error" in said:
        raise Error(**said["error"])
    return _call.Verdict(**said)


def main():
    path, how = sys.argv[1], json.loads(sys.argv[2])
    try:
        for op in how.pop("ops"):
            _lib.op(op)
        said = vars(_call.judge(_call.read(path), **how))
    except Error as e:
        said = {"error": {"message": e.text, "item": e.item, "offset": e.offset, "code": e.code}}
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
