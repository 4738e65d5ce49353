package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// terminalRole is the argument that makes the standby give the job pseudo-terminals of the size that follows it.
const terminalRole = "terminal"

// defaultTerminal is the size of a pseudo-terminal, columns × rows, if the agent has no terminal.
const defaultTerminal = "80x24"

// terminalSize returns the size of the agent's terminal as "COLUMNSxROWS".
func terminalSize() string {
	for _, fd := range []int{unix.Stderr, unix.Stdout, unix.Stdin} {
		if w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 0 {
			return fmt.Sprintf("%dx%d", w.Col, w.Row)
		}
	}
	return defaultTerminal
}

// openPTY opens a pseudo-terminal of a size in the format of terminalSize. Programs whose library buffers whole
// blocks on a pipe write each line immediately to it. It passes bytes unchanged (no output processing, no echo) and
// becomes the controlling terminal of no process, so neither a hangup nor job control reaches the job through it.
func openPTY(size string) (master, slave int, err error) {
	var w unix.Winsize
	if _, err := fmt.Sscanf(size, "%dx%d", &w.Col, &w.Row); err != nil {
		return -1, -1, fmt.Errorf("terminal size %q: %w", size, err)
	}
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	if slave, err = openSlave(master, &w); err != nil {
		unix.Close(master)
		return -1, -1, err
	}
	return master, slave, nil
}

// emptyInput reports whether the standard input is /dev/null.
func emptyInput() bool {
	var input, null unix.Stat_t
	return unix.Fstat(unix.Stdin, &input) == nil && unix.Stat(os.DevNull, &null) == nil && input.Rdev == null.Rdev && input.Mode&unix.S_IFMT == unix.S_IFCHR
}

// openSlave unlocks the slave of a pseudo-terminal, disables output processing and echo, lets each read of it find the end of
// the input, sets its size, and opens it.
func openSlave(master int, size *unix.Winsize) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock the pseudo-terminal: %w", err)
	}
	mode, err := unix.IoctlGetTermios(master, unix.TCGETS)
	if err == nil {
		mode.Oflag &^= unix.OPOST
		mode.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 0, 0
		err = unix.IoctlSetTermios(master, unix.TCSETS, mode)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, size)
	}
	if err != nil {
		return -1, fmt.Errorf("set up the pseudo-terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, fmt.Errorf("number of the pseudo-terminal: %w", err)
	}
	path := fmt.Sprintf("/dev/pts/%d", number)
	slave, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return slave, nil
}
