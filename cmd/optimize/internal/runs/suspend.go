package runs

import (
	"os"
	"os/signal"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onSuspend calls leave before the user suspends this process (Ctrl-Z), and returned when it continues. The returned
// function ends the subscription.
func onSuspend(leave, returned func()) (stop func()) {
	if signal.Ignored(unix.SIGTSTP) {
		return func() {}
	}
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, unix.SIGTSTP, unix.SIGCONT)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				if s == unix.SIGCONT {
					returned()
					continue
				}
				leave()
				suspend()
			}
		}
	}()
	return func() { close(done) }
}

// suspend has the default effect of SIGTSTP by the time that it returns: this process stops until SIGCONT, unless no shell
// could continue it. Go's runtime keeps its handler after [signal.Reset], so that the handler is replaced here.
func suspend() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const maskSize = 8            // sizeof(sigset_t) of the kernel
	var byDefault, old [8]uintptr // not smaller than struct sigaction of the kernel, in which SIG_DFL is 0
	if _, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(&byDefault)), uintptr(unsafe.Pointer(&old)), maskSize, 0, 0); failed != 0 {
		return
	}
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(&old)), 0, maskSize, 0, 0)
}

// inBackground reports whether a terminal is in use by other processes than this one and those started with it. It is false
// for a terminal of another session.
func inBackground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
