package runs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// suspendChild, in the environment of the test binary, makes it the process of TestSuspend that is suspended.
const suspendChild = "OPTIMIZE_TEST_SUSPEND=1"

// TestSuspend checks that a process that erases its display before a suspension is stopped all the same, as often as the user
// asks, and continues.
func TestSuspend(t *testing.T) {
	if strings.Contains(strings.Join(os.Environ(), "\n"), suspendChild) {
		back := make(chan bool, 8)
		stop := onSuspend(func() { fmt.Println("left") }, func() { back <- true })
		for range 2 {
			fmt.Println("ready")
			<-back
			fmt.Println("returned")
			for len(back) > 0 {
				<-back
			}
		}
		stop()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSuspend$")
	cmd.Env = append(os.Environ(), suspendChild)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // with the parent in its session the group is not orphaned
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the process prints %q, want %q", lines.Text(), want)
		}
	}
	for range 2 {
		next("ready")
		if err := unix.Kill(cmd.Process.Pid, unix.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		next("left")
		var status unix.WaitStatus
		if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() || status.StopSignal() != unix.SIGTSTP {
			t.Fatalf("not stopped: %v, %v", status, err)
		}
		if err := unix.Kill(cmd.Process.Pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		next("returned")
	}
	next("PASS")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
