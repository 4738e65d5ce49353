package launch

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"trainopt/internal/regular"

	"golang.org/x/sys/unix"
)

// File descriptors of the trampoline, in addition to its streams, which are already those of the job.
const (
	execSpecFD   = 3 // the spec, read until EOF
	execReportFD = 4 // execReports to the keeper; closed by a successful exec
)

// execReport is one message of the trampoline. The first one precedes exec; a second one reports that exec failed.
type execReport struct {
	Began   time.Duration `json:"began_ns,omitempty"` // just before exec, monotonic
	PeakKiB int64         `json:"peak_kib,omitempty"` // of the trampoline's memory, which the kernel counts to the job
	Missing []string      `json:"missing,omitempty"`  // parts of the recipe that could not be applied
	Failure *startFailure `json:"failure,omitempty"`
}

// startFailure is why a job never ran.
type startFailure struct {
	Reason string `json:"reason"` // the object and what is wrong with it
	Advice string `json:"advice"` // the remedy; may be empty
	// Errno is the system's error number, 0 if the failure is not a system error.
	Errno    syscall.Errno `json:"errno,omitempty"`
	Internal bool          `json:"internal,omitempty"` // the supervisor failed, not the program
}

// execMain is the trampoline: a process that applies the recipe to itself and then becomes the job by exec. Only the
// keeper starts it. It returns, with an exit code, only if exec failed.
func execMain() int {
	runtime.LockOSThread() // affinity belongs to a thread, and exec keeps that of the calling thread
	syscall.CloseOnExec(execSpecFD)
	syscall.CloseOnExec(execReportFD)
	report := json.NewEncoder(os.NewFile(execReportFD, "report"))
	fail := func(f startFailure) int {
		report.Encode(execReport{Failure: &f})
		return 127
	}
	var s spec
	data, err := io.ReadAll(os.NewFile(execSpecFD, "spec"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil || len(s.Args) == 0 {
		return fail(startFailure{Reason: fmt.Sprintf("the trampoline was not told what to start: %v", err)})
	}
	argv, env := plain(s.Args), plain(s.Env)
	if err := os.Chdir(string(s.Dir)); err != nil {
		return fail(explainDir(string(s.Dir), err))
	}
	path, err := lookup(argv[0], env)
	if err != nil {
		return fail(explainLookup(argv[0], env))
	}
	var ready execReport
	if s.Recipe != nil {
		ready.Missing = s.Recipe.Apply()
	}
	var ru unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &ru)
	ready.Began, ready.PeakKiB = Monotonic(), ru.Maxrss
	if err := report.Encode(ready); err != nil {
		return 127 // the keeper is dead: the job would run unsupervised
	}
	return fail(explainExec(path, string(s.Dir), syscall.Exec(path, argv, env)))
}

// lookup finds a program as execvp does: a name with a slash is a path, any other is searched on the PATH of the
// job's environment. A file that cannot be executed is returned if no executable one exists: the error of exec is
// then more specific than "not found".
func lookup(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var second string
	for _, dir := range filepath.SplitList(pathOf(env)) {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + name
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
		if second == "" {
			second = path
		}
	}
	if second != "" {
		return second, nil
	}
	return "", fs.ErrNotExist
}

// pathOf returns the last PATH of env, or the usual default if env has none.
func pathOf(env []string) string {
	for _, v := range slices.Backward(env) {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			return path
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

func explainLookup(name string, env []string) startFailure {
	f := startFailure{
		Reason: fmt.Sprintf("no program named %q on PATH (%s)", name, pathOf(env)),
		Advice: "check the name, install it, or give its path",
		Errno:  unix.ENOENT,
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		f.Advice = fmt.Sprintf("there is such a file in the working directory: write ./%s", name)
	}
	return f
}

func explainDir(dir string, err error) startFailure {
	f := startFailure{Reason: fmt.Sprintf("working directory %q: %v", dir, regular.Reason(err)), Advice: "check the directory", Errno: errnoOf(err)}
	switch f.Errno {
	case unix.ENOENT:
		f.Reason = fmt.Sprintf("the working directory %q does not exist", dir)
	case unix.ENOTDIR:
		f.Reason = fmt.Sprintf("the working directory %q is not a directory", dir)
	case unix.EACCES:
		f.Reason = fmt.Sprintf("the working directory %q may not be entered", dir)
	}
	return f
}

// explainExec describes why path could not be executed from the directory dir.
func explainExec(path, dir string, err error) startFailure {
	f := startFailure{Reason: fmt.Sprintf("%q: %v", path, regular.Reason(err)), Errno: errnoOf(err)}
	switch f.Errno {
	case unix.ENOENT:
		explainMissing(&f, path, dir)
	case unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.EISDIR:
		f.Advice = "check the path"
	case unix.EACCES, unix.EPERM:
		explainDenied(&f, path)
	case unix.ENOEXEC:
		explainFormat(&f, path)
	case unix.E2BIG:
		f.Reason = fmt.Sprintf("%q: its arguments and environment are longer than the system allows", path)
		f.Advice = "pass the list of files in a file"
	default:
		explainShortage(&f)
	}
	return f
}

// explainShortage adds the advice for errors caused by an exhausted resource or limit.
func explainShortage(f *startFailure) {
	switch f.Errno {
	case unix.EAGAIN:
		f.Reason = "the limit on the number of processes is reached (" + f.Reason + ")"
		f.Advice = "end other processes of this user, or raise the limit (ulimit -u, pids.max of the container)"
	case unix.ENOMEM:
		f.Reason = "not enough memory to start a process (" + f.Reason + ")"
		f.Advice = "free memory, or raise the memory limit"
	case unix.EMFILE:
		f.Reason = "this process has as many files open as it may (" + f.Reason + ")"
		f.Advice = "raise the limit on open files (ulimit -n)"
	case unix.ENFILE:
		f.Reason = "the system has as many files open as it may (" + f.Reason + ")"
		f.Advice = "raise fs.file-max, or end other programs"
	case unix.ENOSPC:
		f.Reason = "no space is left on the device (" + f.Reason + ")"
		f.Advice = "free disk space in the state directory"
	case unix.EDQUOT:
		f.Reason = "the disk quota is used up (" + f.Reason + ")"
		f.Advice = "free disk space in the state directory, or raise the quota"
	case unix.EROFS:
		f.Advice = "choose a state directory that can be written"
	case unix.ETXTBSY:
		f.Advice = "a program still has the file open for writing: wait until it is written"
	}
}

// explainMissing explains ENOENT of exec: a dangling link, a missing file, a missing interpreter of a script, or a
// missing loader of a binary.
func explainMissing(f *startFailure, path, dir string) {
	if target, err := os.Readlink(path); err == nil {
		if _, err := os.Stat(path); err != nil {
			f.Reason = fmt.Sprintf("%q is a symbolic link to %q, which does not exist", path, target)
			f.Advice = "repair the link"
			return
		}
	}
	if _, err := os.Stat(path); err != nil {
		f.Reason = fmt.Sprintf("no file %q", path)
		f.Advice = "check the name"
		if !filepath.IsAbs(path) {
			f.Advice = fmt.Sprintf("check the name; it is looked up from %q", dir)
		}
		return
	}
	if interpreter, ok := shebang(path); ok {
		f.Reason = fmt.Sprintf("the first line of %q asks for the interpreter %q, which does not exist", path, interpreter)
		f.Advice = "correct the first line, or name the interpreter in the command"
		if strings.HasSuffix(interpreter, "\r") {
			f.Advice = "the file has Windows line ends: convert it (sed -i 's/\\r$//')"
		}
		return
	}
	f.Reason = fmt.Sprintf("%q is there, but the loader that it was built for is not on this machine", path)
	f.Advice = "it was built for another system (C library or processor): build or install it for this one"
}

// explainDenied explains EACCES and EPERM of exec.
func explainDenied(f *startFailure, path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.Reason = fmt.Sprintf("%q may not be reached: %v", path, regular.Reason(err))
		f.Advice = "check the rights of the directories above it"
	case info.IsDir():
		f.Reason = fmt.Sprintf("%q is a directory", path)
		f.Advice = "name the program or script in it"
	case !info.Mode().IsRegular():
		f.Reason = fmt.Sprintf("%q is not a file that can be executed", path)
		f.Advice = "name a program or script"
	case unix.Access(path, unix.X_OK) != nil && info.Mode().Perm()&0o111 != 0:
		f.Reason = fmt.Sprintf("%q may not be executed here: no right for this user, or a file system mounted noexec", path)
		f.Advice = "check its rights and the mount, or name the interpreter in the command"
	case unix.Access(path, unix.X_OK) != nil:
		f.Reason = fmt.Sprintf("%q is not executable", path)
		f.Advice = "chmod +x it, or name the interpreter in the command"
	default:
		if interpreter, ok := shebang(path); ok {
			f.Reason = fmt.Sprintf("the first line of %q asks for %q, which may not be executed", path, interpreter)
			f.Advice = "correct the first line, or name the interpreter in the command"
		}
	}
}

// explainFormat explains ENOEXEC: a binary for another processor, an empty file, or a text without a #! line.
func explainFormat(f *startFailure, path string) {
	f.Reason = fmt.Sprintf("%q is not a program that this machine can run", path)
	f.Advice = "name the interpreter in the command, or begin the script with a #! line"
	if e, err := elf.Open(path); err == nil {
		f.Reason = fmt.Sprintf("%q was built for another processor (%s; this machine is %s)", path, e.Machine, runtime.GOARCH)
		f.Advice = "build or install it for this one"
		e.Close()
		return
	}
	if head := firstBytes(path); len(head) == 0 {
		f.Reason = fmt.Sprintf("%q is empty", path)
		f.Advice = "check that it was written completely"
	} else if utf8.Valid(head[:len(head)-min(len(head)-1, utf8.UTFMax)]) {
		f.Reason = fmt.Sprintf("%q is a text without a #! line, so the system does not know what runs it", path)
	}
}

// shebang returns the interpreter named in the first line of a script.
func shebang(path string) (string, bool) {
	rest, ok := strings.CutPrefix(string(firstBytes(path)), "#!")
	if !ok {
		return "", false
	}
	line, _, _ := strings.Cut(rest, "\n")
	line = strings.TrimLeft(line, " \t")
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		line = line[:i]
	}
	return line, line != ""
}

// firstBytes returns at most the first 256 bytes of a file, nil on an error.
func firstBytes(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	return head[:n]
}

// errnoOf returns the system error number inside err, 0 if it has none.
func errnoOf(err error) syscall.Errno {
	var n syscall.Errno
	errors.As(err, &n)
	return n
}
