package resources

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/internal/regular"
)

// powerDriver reads and sets the power limits of GPUs, in mW.
type powerDriver interface {
	limits(uuid string) (now, least, most uint32, err error)
	set(uuid string, mw uint32) error
	close()
}

// powerLimits are the power limits of the GPUs of a machine. The limit of each device that a run changes is first
// stored in dir, with the run, so that another process can restore it.
type powerLimits struct {
	dir  string
	open func() (powerDriver, error)
}

// machinePower returns the power limits of this machine; HOST_RUN is where a container has the machine's /run, as for
// gopsutil.
func machinePower() powerLimits {
	return powerLimits{dir: filepath.Join(cmp.Or(os.Getenv("HOST_RUN"), "/run"), "optimize", "power"), open: openPower}
}

const powerSchema = 1

// powerState is the content of a device's file: the power limits in mW that it had before the run, and those that the
// run has set.
type powerState struct {
	Schema int      `json:"schema"`
	UUID   string   `json:"uuid"`
	RunDir string   `json:"run_dir"`
	BootID string   `json:"boot_id"` // the driver forgets limits when the machine restarts
	OwnMW  uint32   `json:"own_mw"`
	SetMW  []uint32 `json:"set_mw"`
}

// PowerHold is the right of a run to change the power limits of its GPUs until ReleasePower.
type PowerHold struct {
	limits powerLimits
	runDir string
	uuids  []string
	alive  func(runDir string) bool
	// OwnW is the common limit of the devices before the run, 0 if they differ; LeastW and MostW bound what they allow. W.
	OwnW, LeastW, MostW int
}

// HoldPower prepares to change the power limits of devices, named by UUID, for the run of a directory; it changes none.
// alive reports whether a process of the run of another directory lives: limits of other runs are respected, those of dead
// ones restored first. The error states why the limits cannot be changed.
func HoldPower(runDir string, uuids []string, alive func(runDir string) bool) (*PowerHold, error) {
	return machinePower().hold(runDir, uuids, alive)
}

func (p powerLimits) hold(runDir string, uuids []string, alive func(string) bool) (*PowerHold, error) {
	h := &PowerHold{limits: p, runDir: runDir, uuids: uuids, alive: alive}
	if len(uuids) == 0 {
		return nil, errors.New("set power limits: the job has no GPU")
	}
	err := p.locked(func(drv powerDriver) error {
		for i, uuid := range uuids {
			s, now, least, most, err := h.claim(drv, uuid)
			if err != nil {
				return err
			}
			own := int(s.OwnMW / 1000)
			if i == 0 {
				h.OwnW, h.LeastW, h.MostW = own, int((least+999)/1000), int(most/1000)
			} else if h.OwnW != own {
				h.OwnW = 0
			}
			h.LeastW, h.MostW = max(h.LeastW, int((least+999)/1000)), min(h.MostW, int(most/1000))
			if err := drv.set(uuid, now); err != nil { // changes nothing, but needs the permission
				return fmt.Errorf("set the power limit of %s: %w", uuid, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// claim returns the state of a device that the run may change, and its limits.
func (h *PowerHold) claim(drv powerDriver, uuid string) (s powerState, now, least, most uint32, err error) {
	if strings.HasPrefix(uuid, "MIG-") {
		return s, 0, 0, 0, fmt.Errorf("set the power limit of %s: a slice shares that of its device", uuid)
	}
	s, err = h.limits.read(uuid)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, 0, 0, 0, err
	}
	if err == nil && s.RunDir != h.runDir {
		if s.BootID == BootID() && h.alive(s.RunDir) {
			return s, 0, 0, 0, fmt.Errorf("set the power limit of %s: the run in %s has set it", uuid, s.RunDir)
		}
		if _, err := h.limits.restore(drv, s); err != nil {
			return s, 0, 0, 0, err
		}
	}
	ours := err == nil && s.RunDir == h.runDir && s.BootID == BootID()
	if now, least, most, err = drv.limits(uuid); err != nil {
		return s, 0, 0, 0, fmt.Errorf("read the power limit of %s: %w", uuid, err)
	}
	if !ours {
		s = powerState{Schema: powerSchema, UUID: uuid, RunDir: h.runDir, BootID: BootID(), OwnMW: now}
	}
	return s, now, least, most, nil
}

// Set sets the power limit of all devices, in W. If it fails for one, the limits of all are restored.
func (h *PowerHold) Set(watts int) error {
	mw := uint32(watts) * 1000
	return h.limits.locked(func(drv powerDriver) error {
		for _, uuid := range h.uuids {
			s, _, _, _, err := h.claim(drv, uuid)
			if err == nil {
				if !slices.Contains(s.SetMW, mw) {
					s.SetMW = append(s.SetMW, mw)
				}
				err = h.limits.write(s)
			}
			if err == nil {
				err = drv.set(uuid, mw)
			}
			if err != nil {
				err = fmt.Errorf("set the power limit of %s to %d W: %w", uuid, watts, err)
				_, restored := h.limits.restoreAll(drv, h.ours)
				return errors.Join(err, restored)
			}
		}
		return nil
	})
}

func (h *PowerHold) ours(s powerState) bool { return s.RunDir == h.runDir }

// ReleasePower restores the power limits that the run of a directory has changed. It returns a line for each. A device
// that cannot be restored, because it is lost, remains stored for the next call.
func ReleasePower(runDir string) ([]string, error) {
	return machinePower().release(func(s powerState) bool { return s.RunDir == runDir })
}

// RestorePower restores the power limits changed by runs of which no process lives, as after a crash; see ReleasePower.
func RestorePower(alive func(runDir string) bool) ([]string, error) {
	lines, err := machinePower().release(func(s powerState) bool { return s.BootID != BootID() || !alive(s.RunDir) })
	if errors.Is(err, fs.ErrPermission) { // limits are root's, and so are the locks that show who lives
		return nil, nil
	}
	return lines, err
}

// release restores the limits of matching states. Without any it does not call the driver.
func (p powerLimits) release(match func(powerState) bool) (lines []string, err error) {
	if states, _ := p.states(); !slices.ContainsFunc(states, match) {
		return nil, nil
	}
	err = p.locked(func(drv powerDriver) (err error) {
		lines, err = p.restoreAll(drv, match)
		return err
	})
	return lines, err
}

func (p powerLimits) restoreAll(drv powerDriver, match func(powerState) bool) (lines []string, err error) {
	states, err := p.states()
	for _, s := range states {
		if !match(s) {
			continue
		}
		line, failed := p.restore(drv, s)
		if err = errors.Join(err, failed); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, err
}

// restore sets the limit of a device to that before the run, and removes its state. A limit that the run did not set
// is another program's, and kept.
func (p powerLimits) restore(drv powerDriver, s powerState) (line string, err error) {
	if s.BootID == BootID() {
		now, _, _, err := drv.limits(s.UUID)
		if err == nil && now != s.OwnMW && slices.Contains(s.SetMW, now) {
			line = fmt.Sprintf("power limit of %s: %d → %d W (restored)", s.UUID, now/1000, s.OwnMW/1000)
			err = drv.set(s.UUID, s.OwnMW)
		} else if err == nil && now != s.OwnMW {
			line = fmt.Sprintf("power limit of %s: %d W was set by another program, not restored to %d W", s.UUID, now/1000, s.OwnMW/1000)
		}
		if err != nil {
			return "", fmt.Errorf("restore the power limit of %s to %d W: %w", s.UUID, s.OwnMW/1000, err)
		}
	}
	return line, os.Remove(p.path(s.UUID))
}

func (p powerLimits) path(uuid string) string {
	return filepath.Join(p.dir, strings.ReplaceAll(uuid, "/", "-")+".json")
}

func (p powerLimits) read(uuid string) (s powerState, err error) {
	data, err := regular.ReadFile(p.path(uuid), 1<<16)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil || s.Schema != powerSchema || s.UUID != uuid {
		return s, fmt.Errorf("read %s: not a power limit stored by this program", p.path(uuid))
	}
	return s, nil
}

func (p powerLimits) write(s powerState) error {
	return regular.WriteJSON(p.path(s.UUID), 0o644, s)
}

// states returns all stored states; files that cannot be read are in the error.
func (p powerLimits) states() (out []powerState, err error) {
	entries, _ := os.ReadDir(p.dir) // absent until a limit is first set
	for _, e := range entries {
		if uuid, ok := strings.CutSuffix(e.Name(), ".json"); ok && !strings.HasPrefix(uuid, ".") {
			s, failed := p.read(uuid)
			if failed == nil {
				out = append(out, s)
			} else if !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}
	return out, err
}

// powerWait bounds the wait for another process that changes limits.
const powerWait = 5 * time.Second

// locked calls do with the driver while no other process changes limits. A driver that hangs is left to its goroutine.
func (p powerLimits) locked(do func(powerDriver) error) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return fmt.Errorf("store power limits: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("store power limits: %w", err)
	}
	for end := time.Now().Add(powerWait); ; time.Sleep(10 * time.Millisecond) {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("lock the power limits: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		defer f.Close()
		drv, err := p.open()
		if err == nil {
			err = do(drv)
			drv.close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(gpuTimeout):
		return errors.New("set power limits: the NVIDIA driver does not answer")
	}
}

// BootID identifies this boot of the kernel; empty if the machine does not provide it.
func BootID() string {
	data, _ := os.ReadFile(procRoot + "/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}
