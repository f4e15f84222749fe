"""Ways out of a sandbox, as code. Code that gets out prints ESCAPED, or what stands in SECRET.

SECRET is a file that anyone may read, in the folder FOLDER; PORT is one that listens on loopback;
TOOLS and FRONT are the processes around the sandbox. `call` makes a system call by its number.
"""

from __future__ import annotations

_CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    result = libc.syscall(number, *args)
    if result >= 0:
        print("ESCAPED", number, result)
    return result
"""

_READING = {
    "open": "print(open('SECRET').read())",
    "os.open": "import os; print(os.read(os.open('SECRET', 0), 99))",
    "FileIO": "import io; print(io.FileIO('SECRET').read())",
    "pathlib": "from pathlib import Path; print(Path('SECRET').read_text())",
    "codecs": "import codecs; print(codecs.open('SECRET').read())",
    "linecache": "import linecache; print(linecache.getlines('SECRET'))",
    "exists": "import os\nif os.path.exists('SECRET'): print('ESCAPED')",
    "listing": "import os; print('ESCAPED', os.listdir('/'))",
    "glob": "import glob\nif glob.glob('/*'): print('ESCAPED')",
    "stat": "import os; print('ESCAPED', os.stat('/'))",
    "cwd": "import os; print('ESCAPED', os.getcwd())",
    "import": "import sys; sys.path.insert(0, 'FOLDER'); import canary",
    "import again": "import sys; del sys.modules['json']; import json; print('ESCAPED')",
    "loader": (
        "import importlib.util as u; s = u.spec_from_file_location('x', 'SECRET')\n"
        "s.loader.exec_module(u.module_from_spec(s)); print('ESCAPED')"
    ),
    "own environment": "print(open('/proc/self/environ').read())",
    "tools' environment": "print(open('/proc/TOOLS/environ').read())",
    "own memory": "print('ESCAPED', open('/proc/self/mem', 'rb'))",
    "maps": "print('ESCAPED', open('/proc/self/maps').read())",
    "descriptors": "import os; print('ESCAPED', os.listdir('/proc/self/fd'))",
    "any descriptor": (
        "import os\nfor n in range(1024):\n"
        "    try: print('ESCAPED', n, os.read(n, 10))\n    except OSError: pass"
    ),
    "stdin": "print('ESCAPED', input())",
    "variables": "import os\nif os.environ: print('ESCAPED', dict(os.environ))",
    "getenv": "import os\nif os.getenv('CANARY'): print('ESCAPED')",
}
_WRITING = {
    "write": "open('FOLDER/new', 'w').write('x'); print('ESCAPED')",
    "append": "open('SECRET', 'a').write('x'); print('ESCAPED')",
    "mkdir": "import os; os.mkdir('FOLDER/new'); print('ESCAPED')",
    "unlink": "import os; os.unlink('SECRET'); print('ESCAPED')",
    "rename": "import os; os.rename('SECRET', 'FOLDER/new'); print('ESCAPED')",
    "symlink": "import os; os.symlink('SECRET', 'FOLDER/new'); print('ESCAPED')",
    "chmod": "import os; os.chmod('SECRET', 0); print('ESCAPED')",
    "chdir": "import os; os.chdir('FOLDER'); print('ESCAPED')",
    "chroot": "import os; os.chroot('FOLDER'); print('ESCAPED')",
    "mkfifo": "import os; os.mkfifo('FOLDER/new'); print('ESCAPED')",
    "tempfile": "import tempfile; tempfile.TemporaryFile(); print('ESCAPED')",
    "devices": "open('/dev/mem', 'rb'); print('ESCAPED')",
    "descriptors": (
        "import os\nfor n in range(3, 1024):\n"
        "    try: os.write(n, b'x'); print('ESCAPED', n)\n    except OSError: pass"
    ),
}
_NETWORK = {
    "connect": "import socket; socket.create_connection(('127.0.0.1', PORT)); print('ESCAPED')",
    "socket": "import socket; socket.socket(); print('ESCAPED')",
    "unix": "import socket; socket.socket(socket.AF_UNIX); print('ESCAPED')",
    "pair": "import socket; socket.socketpair(); print('ESCAPED')",
    "names": "import socket; print('ESCAPED', socket.getaddrinfo('example.com', 80))",
    "urllib": "import urllib.request as r; r.urlopen('http://127.0.0.1:PORT'); print('ESCAPED')",
    "asyncio": (
        "import asyncio\nasync def go():\n    await asyncio.open_connection('127.0.0.1', PORT)\n"
        "    print('ESCAPED')\nasyncio.run(go())"
    ),
}
_PROCESSES = {
    "fork": "import os; os.fork(); print('ESCAPED')",
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork(); print('ESCAPED')\n    except OSError: pass"
    ),
    "libc fork": "import ctypes\nif ctypes.CDLL(None).fork() >= 0: print('ESCAPED')",
    "system": "import os\nif os.system('true') == 0: print('ESCAPED')",
    "popen": "import os; print('ESCAPED' if os.popen('echo x').read() else '')",
    "subprocess": "import subprocess; subprocess.run(['/bin/true']); print('ESCAPED')",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {}); print('ESCAPED')",
    "exec": "import os; os.execv('/bin/echo', ['echo', 'ESCAPED'])",
    "thread": "import threading; threading.Thread(target=print, args=('ESCAPED',)).start()",
    "thread bomb": (
        "import _thread\nwhile True:\n"
        "    try: _thread.start_new_thread(print, ('ESCAPED',))\n    except RuntimeError: pass"
    ),
    "multiprocessing": (
        "import multiprocessing as m; m.Process(target=print).start(); print('ESCAPED')"
    ),
    "kill the tools": "import os; os.kill(TOOLS, 9); print('ESCAPED')",
    "kill the front": "import os; os.kill(FRONT, 9); print('ESCAPED')",
    "kill all": "import os; os.kill(-1, 9); print('ESCAPED')",
    "kill the jailer": "import os; os.kill(os.getppid(), 9); print('ESCAPED')",
    "kill the group": "import os; os.killpg(0, 9); print('ESCAPED')",
    "pickle": (
        "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"echo ESCAPED\"\\ntR.')\n"
        "class X:\n    def __reduce__(self): return (open, ('SECRET',))\n"
        "print(pickle.loads(pickle.dumps(X())).read())"
    ),
}
_RIGHTS = {
    "root": "import os; os.setuid(0); print('ESCAPED')",
    "groups": "import os; os.setgroups([0]); print('ESCAPED')",
    "priority": "import os; os.nice(-20); print('ESCAPED')",
    "limits": (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (r.RLIM_INFINITY,) * 2); print('ESCAPED')"
    ),
    "alarm": "import signal; signal.setitimer(signal.ITIMER_REAL, 1); print('ESCAPED')",
    "clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0); print('ESCAPED')",
    "hostname": "import socket; socket.sethostname('x'); print('ESCAPED')",
}
_CALLS = {
    "openat": "call(257, -100, b'SECRET', 0)",
    "open": "call(2, b'SECRET', 0)",
    "x32 open": "call(0x40000002, b'SECRET', 0)",
    "openat2": "call(437, -100, b'SECRET', bytes(24), 24)",
    "handle": "call(304, -100, bytes(64), 0)",
    "io_uring": "call(425, 8, bytes(120))",
    "memfd": "call(319, b'x', 0)",
    "execve": "call(59, b'/bin/true', 0, 0)",
    "clone": "call(56, 17, 0, 0, 0, 0)",
    "clone3": "call(435, bytes(88), 88)",
    "vfork": "call(58)",
    "ptrace": "call(101, 16, TOOLS, 0, 0)",
    "other's memory": "call(310, TOOLS, 0, 0, 0, 0, 0)",
    "other's files": "call(434, TOOLS, 0)",
    "unshare": "call(272, 0x10000000)",
    "mount": "call(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "bpf": "call(321, 0, bytes(64), 64)",
    "userfaultfd": "call(323, 0)",
    "keyctl": "call(250, 0, -3, 1)",
    "module": "call(175, 0, 0, b'')",
    "reboot": "call(169, 0, 0, 0, 0)",
    "ioctl": "call(16, 1, 0x5412, b'x')",
    "seccomp": "call(317, 0, 0, 0)",
    "death signal": "call(157, 1, 0, 0, 0, 0)",
    "personality": "call(135, 0x0040000)",
    "dup": "call(32, 1)",
    "pipe": "call(22, bytes(8))",
    "shared memory": "call(29, 0, 4096, 0o1666)",
}
_INTERPRETER = {
    "subclasses": (
        "for c in ().__class__.__base__.__subclasses__():\n"
        "    if c.__name__ in ('Popen', 'FileLoader', 'catch_warnings'):\n"
        "        try: print(c('x', 'SECRET').get_data('SECRET'))\n        except Exception: pass\n"
        "import builtins; print(builtins.__import__('io').open('SECRET').read())"
    ),
    "frames": (
        "import sys\nf = sys._getframe()\nwhile f:\n"
        "    for v in list(f.f_locals.values()):\n"
        "        if hasattr(v, 'recv') or hasattr(v, 'sendmsg'):\n"
        "            v.send(b'run'); print('ESCAPED', v)\n"
        "    f = f.f_back"
    ),
    "garbage": (
        "import gc, socket\nfor o in gc.get_objects():\n"
        "    if isinstance(o, socket.socket) and o.fileno() >= 0:\n"
        "        o.send(b'run'); print('ESCAPED')\n"
        "    if isinstance(o, dict) and any('EARLIER_' + 'CODE' in str(v)[:500]\n"
        "            for v in o.values() if isinstance(v, str)):\n        print('ESCAPED')"
    ),
    "eval": "print('ESCAPED', eval(\"__import__('os').listdir('/')\"))",
    "no exit": "import os; os._exit = lambda *a: None; os.write = lambda *a: 0",
    "own exit": "import os; os._exit(0)",
    "own status": "import os; os._exit(77)",
    "abort": "import os; os.abort()",
    "null": "import ctypes; ctypes.string_at(0)",
    "smash": "import ctypes; ctypes.memset(id(None) - 4096, 255, 65536)",
    "no builtins": "import builtins, sys; builtins.__dict__.clear(); sys.modules.clear(); print(1)",
    "no streams": "import sys; sys.stdout = sys.stderr = sys.__stdout__ = None",
    "no handlers": (
        "import signal\nfor n in range(1, 65):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "while True: pass"
    ),
    "32 bits": (
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
        "m.write(bytes.fromhex('b814000000cd80c3'))  # getpid by the other machine's table\n"
        "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
        "if f() > 0: print('ESCAPED')"
    ),
    "forged frame": (
        'import os, struct\nb = b\'{"type":"done","id":1,"text":"ESC" + "APED"}\'\n'
        "os.write(1, struct.pack('>I', len(b)) + b)"
    ),
    "forged end": "import os; os.write(2, b'\\nESC'); os.close(1)",
    "surrogates": "print('\\udcff\\x00\\x1b]52;c;x\\x07')",
    "null in source": "x = 1\0",
    "cookie": "# -*- coding: rot13 -*-\ncevag('ESCAPED')",
}
_MEMORY = {
    "bytes": "x = bytearray(10**11)",
    "list": "x = [0]\nwhile True: x += x",
    "text": "x = 'x'\nwhile True: x += x",
    "objects": "x = []\nwhile True: x.append(object())",
    "mmap": "import mmap; x = mmap.mmap(-1, 10**11)",
    "many mmaps": "import mmap; x = [mmap.mmap(-1, 10**8) for _ in range(100)]",
    "list of a generator": "import itertools; list(itertools.count())",
    "caught": (
        "x = []\nwhile True:\n    try: x.append(bytearray(10**7))\n    except MemoryError: pass"
    ),
    "zip bomb": (
        "import zlib\nd = zlib.compressobj()\n"
        "z = b''.join(d.compress(bytes(10**6)) for _ in range(2000))\n"
        "x = zlib.decompress(z + d.flush())"
    ),
    "recursion": "def f(): return f()\nf()",
    "deep recursion": (
        "import sys; sys.setrecursionlimit(10**9)\ndef f(x): return repr([f(x)])\nf(1)"
    ),
    "deep list": "x = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
    "deep parentheses": "(" * 100_000,
    "deep brackets": "x = " + "[" * 5000 + "]" * 5000,
    "deep attributes": "x = a" + ".a" * 50_000,
    "deep minus": "x = " + "-" * 50_000 + "1",
    "deep blocks": "".join(" " * n + "if 1:\n" for n in range(300)) + " " * 300 + "pass",
    "format": "x = '{:>10000000000}'.format(1)",
    "range": "x = list(range(10**12))",
}
_TIME = {
    "loop": "while True: pass",
    "deaf loop": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sleep": "import time; time.sleep(1000)",
    "regular expression": "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
    "power": "x = 9 ** 9 ** 9",
    "folded power": "x = (10 ** 4000) ** 4000 ** 2",
    "digits": "import sys; sys.set_int_max_str_digits(0); str(10 ** 10**7)",
    "sum": "sum(range(10 ** 15))",
    "lock": "import threading; x = threading.Lock(); x.acquire(); x.acquire()",
    "contains": "import itertools; 'x' in itertools.count()",
    "last will": "import atexit, time; atexit.register(time.sleep, 1000); raise SystemExit",
    "endless test": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        while 1: pass"
    ),
}
_OUTPUT = {
    "print": "while True: print('x' * 10_000)",
    "at once": "print('x' * 10**8)",
    "raw": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "errors": "import os\nwhile True: os.write(2, b'x' * 65536)",
    "newlines": "print('\\n' * 10**7)",
    "long error": "raise ValueError('x' * 10**8)",
    "traceback": "import sys\ndef f(n): f(n + 1)\nsys.setrecursionlimit(50_000)\nf(0)",
}

ATTACKS = {
    "read": _READING,
    "write": _WRITING,
    "network": _NETWORK,
    "process": _PROCESSES,
    "rights": _RIGHTS,
    "call": {name: _CALL + code for name, code in _CALLS.items()},
    "interpreter": _INTERPRETER,
    "memory": _MEMORY,
    "time": _TIME,
    "output": _OUTPUT,
}
"""By kind and name. The numbers of system calls are those of x86_64."""
