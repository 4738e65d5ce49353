package remote

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// Apart runs a command in name spaces of its own, in which it can change nothing but the directory dir: it must call
// EnterApart. Neither it nor its children reach the network. The error is that of a kernel that refuses the name spaces.
func Apart(argv []string, dir string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, nil, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		one := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		}
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = one(os.Geteuid()), one(os.Getegid())
		c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	return c
}

// scratchShare is the share of the memory of a job that changes of files may take.
const scratchShare = 0.25

// pseudo are the types of file systems whose files are no data of a training.
var pseudo = []string{"proc", "sysfs", "cgroup", "cgroup2", "devtmpfs", "devpts", "mqueue", "debugfs", "tracefs", "securityfs", "pstore", "bpf",
	"configfs", "fusectl", "hugetlbfs", "autofs", "efivarfs", "binfmt_misc", "rpc_pipefs", "nsfs"}

// EnterApart makes every file system read-only for this process and its children, but dir, which stays as it is, and the
// directories in change, of which they see copies on write in memory, of memoryGiB in all; the first of change must
// exist, and becomes the working directory. Then it replaces the process by argv, without privileges. It returns only
// with an error. Directories that are not writable are left out, as are those within others.
func EnterApart(dir string, change []string, memoryGiB float64, argv []string) error {
	runtime.LockOSThread()
	if len(change) == 0 {
		return errors.New("no working directory")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	own, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("keep %s: %w", dir, err)
	}
	if err := freeze(); err != nil {
		return err
	}
	scratch := filepath.Join(dir, "scratch")
	size := "size=" + strconv.FormatInt(int64(max(memoryGiB*scratchShare, 1.0/16)*(1<<30)), 10) + ",mode=0700"
	if err := unix.Mount("optimize", scratch, "tmpfs", 0, size); err != nil {
		return fmt.Errorf("mount memory at %s: %w", scratch, err)
	}
	// The copy of a directory that contains dir hides the path of scratch, not its descriptor.
	held, err := unix.Open(scratch, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", scratch, err)
	}
	scratch = "/proc/self/fd/" + strconv.Itoa(held)
	for i, d := range outermost(change) {
		if err := copyOnWrite(d, filepath.Join(scratch, strconv.Itoa(i))); err != nil && within(change[0], d) {
			return fmt.Errorf("protect %s: %w", d, err)
		} // another one stays read-only
	}
	if err := unix.MoveMount(own, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("keep %s: %w", dir, err)
	}
	if err := errors.Join(loopback(), os.Chdir(change[0])); err != nil {
		return err
	}
	unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // without effect as root
	return fmt.Errorf("start %s: %w", argv[0], unix.Exec(argv[0], argv, os.Environ()))
}

// freeze makes every mounted file system with data read-only.
func freeze() error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		sep := slices.Index(f, "-")
		if len(f) < 6 || sep < 0 || sep+1 >= len(f) || slices.Contains(pseudo, f[sep+1]) {
			continue
		}
		point := resources.UnescapeMount(f[4])
		err := unix.MountSetattr(unix.AT_FDCWD, point, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINVAL) { // hidden below another mount
			return fmt.Errorf("make %s read-only: %w", point, err)
		}
	}
	return nil
}

// outermost returns the existing directories that are in no other one, with symbolic links resolved. The root is none.
func outermost(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		real, err := filepath.EvalSymlinks(d)
		if info, statErr := os.Stat(real); err != nil || statErr != nil || !info.IsDir() || !filepath.IsAbs(real) || real == "/" {
			continue
		}
		if slices.ContainsFunc(out, func(o string) bool { return within(real, o) }) {
			continue
		}
		out = append(slices.DeleteFunc(out, func(o string) bool { return within(o, real) }), real)
	}
	return out
}

// within reports whether path is dir or below it, symbolic links resolved.
func within(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// copyOnWrite covers a directory by one whose changes are kept in scratch.
func copyOnWrite(dir, scratch string) error {
	upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(upper, 0o700), os.MkdirAll(work, 0o700)); err != nil {
		return err
	}
	if err := os.Chmod(upper, info.Mode()&(os.ModePerm|os.ModeSticky)); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil { // the kernel reads ',' and ':' in a path as separators
		return err
	}
	options := "lowerdir=.,upperdir=" + upper + ",workdir=" + work
	if err = unix.Mount("optimize", dir, "overlay", 0, options+",userxattr"); err != nil {
		err = unix.Mount("optimize", dir, "overlay", 0, options)
	}
	return errors.Join(err, os.Chdir("/"))
}

// loopback starts the loopback interface, by which the processes of a training connect to each other.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("start the loopback interface: %w", err)
	}
	return nil
}
