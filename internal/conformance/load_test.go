package conformance

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// loadVariable is the environment variable that turns the test binary into a load generator process.
const loadVariable = "CONFORMANCE_LOAD"

// burn computes most of the time, in bursts of random length, until its parent exits.
func burn() {
	for parent := os.Getppid(); os.Getppid() == parent; {
		for end := time.Now().Add(time.Duration(rand.ExpFloat64() * float64(time.Second))); time.Now().Before(end); {
			for i := 0; i < 1e6; i++ {
				_ = i
			}
		}
		time.Sleep(time.Duration(rand.ExpFloat64() * 0.1 * float64(time.Second)))
	}
}

// startLoad runs n busy processes until the test ends or stop is called.
func startLoad(t *testing.T, n int) (stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var started []*exec.Cmd
	stop = func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		started = nil
	}
	t.Cleanup(stop)
	for range n {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), loadVariable+"=1", "GOMAXPROCS=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		started = append(started, cmd)
	}
	return stop
}
