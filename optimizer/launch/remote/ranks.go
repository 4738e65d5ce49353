package remote

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/launch"
)

// A stretch on several nodes has a supervisor on each, which starts the training there and follows requests, signals,
// fence and time limit by itself. The first one speaks for all: its state is that of the stretch. The others start after
// it and end with it; it ends when one of them has failed, and records its end after theirs.

// peerSilence is the time without a sign of life after which a node counts as failed: its supervisor was killed, or the
// node has died.
const peerSilence = 30 * time.Second

// failTime is the time that the training of a node has to end by itself after that of another node has ended: the
// processes of a distributed training notice a lost one only sometimes.
const failTime = 10 * time.Second

// rankDir returns the directory of one of the nodes of a stretch: for the first one that of the stretch.
func rankDir(shared string, rank int) string {
	if rank == 0 {
		return shared
	}
	return filepath.Join(shared, "rank-"+strconv.Itoa(rank))
}

// rankDirs returns the directories of all nodes of a stretch but the first.
func rankDirs(shared string) []string {
	dirs, _ := fs.Glob(os.DirFS(shared), "rank-*") // the pattern is valid
	for i, name := range dirs {
		dirs[i] = filepath.Join(shared, name)
	}
	return dirs
}

// Nodes returns the engine's names of the nodes that hold the last stretch of a run, as far as they have told; none if it has
// ended, or waits. With past, it returns those that held it too.
func Nodes(runDir string, past bool) (names []string) {
	list, err := Stretches(runDir)
	if err != nil || len(list) == 0 || !past && !list[len(list)-1].Ended.IsZero() {
		return nil
	}
	last := list[len(list)-1]
	shared := launch.StretchDir(runDir, last.N)
	for _, dir := range append(rankDirs(shared), shared) {
		var s nodeState
		if readJSON(dir, nodeFile, &s) == nil && (past || s.Phase != ended && s.Phase != fenced) && s.Node != "" {
			names = append(names, s.Node)
		}
	}
	if past && names == nil {
		return last.Nodes // by the engine
	}
	return names
}

// meet determines where the processes of all nodes find each other; the first node announces it with its state.
func (n *node) meet() error {
	if n.spec.Nodes < 2 || n.rank > 0 {
		return nil
	}
	host := n.state.Host
	if _, err := net.LookupHost(host); err != nil { // Slurm's address of the first node
		if at := os.Getenv("SLURM_LAUNCH_NODE_IPADDR"); at != "" {
			host = at
		}
	}
	free, err := net.Listen("tcp", ":0")
	if err != nil {
		return fmt.Errorf("find a free port on %s: %w", host, err)
	}
	defer free.Close()
	n.state.Meeting = net.JoinHostPort(host, strconv.Itoa(free.Addr().(*net.TCPAddr).Port))
	return nil
}

// rankVariables returns the variables by which the processes of several nodes find each other: those of a process group
// with one process a node, and the defaults of torchrun's options, which sets the former for the processes that it starts.
func (n *node) rankVariables() []string {
	if n.spec.Nodes < 2 {
		return nil
	}
	host, port, _ := net.SplitHostPort(n.state.Meeting)
	rank, nodes := strconv.Itoa(n.rank), strconv.Itoa(n.spec.Nodes)
	return []string{"MASTER_ADDR=" + host, "MASTER_PORT=" + port, "RANK=" + rank, "WORLD_SIZE=" + nodes, "NODE_RANK=" + rank, "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
		"PET_NNODES=" + nodes, "PET_NODE_RANK=" + rank, "PET_MASTER_ADDR=" + host, "PET_MASTER_PORT=" + port, "OPTIMIZE_OBSERVE_NODE=" + rank}
}

// firstHasBegun reports whether the first node holds its place in the same life of the stretch, and whether the job runs
// there. The error reports that it has ended.
func (n *node) firstHasBegun() (alive, begun bool, err error) {
	n.lookAtPeers()
	if len(n.peers) == 0 {
		return false, false, nil
	}
	first := &n.peers[0]
	if first.over() {
		return false, false, fmt.Errorf("ended on the first node before the job was started on node %d", n.rank)
	}
	n.state.Meeting = first.Meeting
	return true, first.Phase == running, nil
}

// lookAtPeers reads the states of the other nodes: of the first one, or all others.
func (n *node) lookAtPeers() {
	ranks := []int{0}
	if n.rank == 0 {
		ranks = ranks[:0]
		for k := 1; k < n.spec.Nodes; k++ {
			ranks = append(ranks, k)
		}
	}
	before := n.peers
	n.peers = nil
	for _, k := range ranks {
		s := peer{seen: time.Now()}
		if readJSON(rankDir(n.shared, k), nodeFile, &s.nodeState) != nil || s.Life != n.state.Life {
			continue
		}
		if i := slices.IndexFunc(before, func(b peer) bool { return b.Node == s.Node && b.Beat == s.Beat }); i >= 0 {
			s.seen = before[i].seen
		}
		n.peers = append(n.peers, s)
	}
}

// peer is the state of another node.
type peer struct {
	nodeState
	seen time.Time // when the state last changed, on the clock of this node
}

// over reports whether the job of a node has ended.
func (s *nodeState) over() bool { return s.Phase == ended || s.Phase == fenced || s.Over }

// hasFailed reports whether the job of a node has ended otherwise than by success, a save or a stop, or shows no sign of
// life any more.
func (p *peer) hasFailed() bool {
	if !p.over() {
		return time.Since(p.seen) > peerSilence
	}
	e := p.Exit
	return e == nil || e.Reason != launch.Stopped && (e.Reason != launch.Exited || e.Code != 0 && e.Code != codeSaved)
}

// followPeers ends the job if that of the first node has ended, or that of another one has failed.
func (n *node) followPeers() {
	if n.spec.Nodes < 2 || n.ordered {
		return
	}
	if n.lookAtPeers(); n.stopAt.IsZero() {
		at := slices.IndexFunc(n.peers, func(p peer) bool { return n.rank > 0 && p.over() || p.hasFailed() })
		if at < 0 {
			return
		}
		n.stopAt, n.failed = time.Now().Add(failTime), &n.peers[at]
	}
	if time.Now().After(n.stopAt) {
		n.ordered = true
		go n.job.Stop(context.Background(), n.spec.Grace)
	}
}

// awaitPeers waits, on the first node, until the jobs of the other nodes have ended, at most as long as their stop may take.
// It returns the exit of the stretch: its own, unless another node failed before, or ran out of memory.
func (n *node) awaitPeers(exit launch.Exit) launch.Exit {
	if n.spec.Nodes < 2 || n.rank > 0 {
		return exit
	}
	n.state.Over = true
	n.beat() // the next beat may succeed
	for until := time.Now().Add(failTime + n.spec.Grace + busyTime); time.Now().Before(until); time.Sleep(nodeTick) {
		n.beat()
		n.lookAtPeers()
		if n.isFenced() || !slices.ContainsFunc(n.peers, func(p peer) bool { return !p.over() && !p.hasFailed() }) {
			break
		}
	}
	for i := range n.peers {
		if p := &n.peers[i]; n.failed == nil && p.Exit != nil && p.Exit.Reason == launch.OOM && exit.Reason != launch.OOM {
			n.failed = p
		}
	}
	if f := n.failed; f != nil && n.state.Signal == "" {
		if f.Exit == nil {
			return launch.Exit{Reason: launch.Preempted, Code: -1, Detail: "node " + f.Node + " shows no sign of life", At: exit.At, Ran: exit.Ran}
		}
		at, ran := exit.At, exit.Ran
		exit = *f.Exit
		exit.At, exit.Ran = at, ran
		exit.Detail = strings.TrimSuffix("on node "+f.Node+": "+exit.Detail, ": ")
	}
	return exit
}
