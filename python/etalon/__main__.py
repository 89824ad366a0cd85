"""`etalon`, the program itself."""
import os
import sys


def program():
    bundled = os.path.join(os.path.dirname(__file__), "lib", "etalon")
    return os.environ.get("ETALON_PROGRAM") or (bundled if os.path.exists(bundled) else "etalon")


def main():
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.execvp(program(), ["etalon", *sys.argv[1:]])


if __name__ == "__main__":
    main()
