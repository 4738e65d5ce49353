package remote

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// twoNodes returns a launcher whose stretches have two nodes.
func twoNodes(t *testing.T, c *cluster) *Launcher {
	l := site(t, c)
	l.Place = func(a resources.Allocation) engine.Place { return engine.Place{Nodes: 2, CPUs: a.CPUs} }
	return l
}

// TestTwoNodes checks that a training is started once on each node, with variables by which the processes find each
// other, and that its exit is recorded after both have ended.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	command := shell(t, `echo "$RANK $WORLD_SIZE $LOCAL_RANK $PET_NNODES $PET_NODE_RANK $MASTER_ADDR:$MASTER_PORT $PET_MASTER_ADDR:$PET_MASTER_PORT $OPTIMIZE_OBSERVE_NODE"
		[ $RANK = 0 ] || { echo > begun; sleep 1; echo late > late; }
		while [ ! -s begun ]; do sleep 0.1; done`)
	command.Env = append(command.Env, "MASTER_PORT=1", "WORLD_SIZE=7")
	j := start(t, twoNodes(t, newCluster(t)), command)
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Exited || e.Code != 0 {
		t.Errorf("exit %+v", e)
	}
	if _, err := os.Stat(filepath.Join(command.Dir, "late")); err != nil {
		t.Errorf("the end was recorded before that of the other node: %v", err)
	}
	var meeting [2]string
	for k := range 2 {
		dir := rankDir(launch.StretchDir(command.RunDir, 1), k)
		f := strings.Fields(awaitFile(t, filepath.Join(dir, "job.stdout")))
		rank := string(rune('0' + k))
		if want := []string{rank, "2", "0", "2", rank}; len(f) != 8 || strings.Join(f[:5], " ") != strings.Join(want, " ") || f[5] != f[6] || f[7] != rank {
			t.Errorf("variables of node %d: %v", k, f)
		} else {
			meeting[k] = f[5]
		}
	}
	if meeting[0] != meeting[1] || strings.HasPrefix(meeting[0], ":") || strings.HasSuffix(meeting[0], ":1") {
		t.Errorf("the nodes meet at %v", meeting)
	}
}

// TestNodeFails checks that the failure of the training on one node ends it on the other, and is the exit of the stretch.
func TestNodeFails(t *testing.T) {
	t.Parallel()
	command := shell(t, `[ $RANK = 0 ] && exec sleep 1000; exit 7`)
	j := start(t, twoNodes(t, newCluster(t)), command)
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Exited || e.Code != 7 || !strings.Contains(e.Detail, "on node node1") {
		t.Errorf("exit %+v, want 7 on node1", e)
	}
}

// TestFirstNodeEnds checks that the training of the other nodes ends with that of the first.
func TestFirstNodeEnds(t *testing.T) {
	t.Parallel()
	command := shell(t, `[ $RANK = 1 ] && { echo $$ > pid; exec sleep 1000; }; while [ ! -s pid ]; do sleep 0.1; done; exit 3`)
	j := start(t, twoNodes(t, newCluster(t)), command)
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Reason != launch.Exited || e.Code != 3 {
		t.Errorf("exit %+v, want 3", e)
	}
	var other nodeState
	if err := readJSON(rankDir(launch.StretchDir(command.RunDir, 1), 1), nodeFile, &other); err != nil || other.Exit == nil || other.Exit.Reason != launch.Stopped {
		t.Errorf("the other node: %+v, %v; want a stop", other, err)
	}
}

// TestRequestsReachAllNodes checks that a request for a checkpoint and a stop are carried out on each node, and that a node
// that has saved is no failed one.
func TestRequestsReachAllNodes(t *testing.T) {
	t.Parallel()
	command := shell(t, `trap 'echo saved > saved-$RANK; exit 75' USR1; echo > ready-$RANK; while :; do sleep 0.1; done`)
	l := twoNodes(t, newCluster(t))
	j := start(t, l, command)
	await(t, "the start", j.Started())
	for _, k := range []string{"0", "1"} {
		awaitFile(t, filepath.Join(command.Dir, "ready-"+k))
	}
	j.Checkpoint()
	await(t, "the end", j.Done())
	if e := j.Exit(); e.Code != 75 {
		t.Errorf("exit %+v, want 75", e)
	}
	for _, k := range []string{"0", "1"} {
		if _, err := os.Stat(filepath.Join(command.Dir, "saved-"+k)); err != nil {
			t.Error(err)
		}
		os.Remove(filepath.Join(command.Dir, "ready-"+k))
	}
	j = start(t, l, command)
	await(t, "the start", j.Started())
	for _, k := range []string{"0", "1"} {
		awaitFile(t, filepath.Join(command.Dir, "ready-"+k))
	}
	if e, err := j.Stop(context.Background(), time.Second); err != nil || e.Reason != launch.Stopped {
		t.Errorf("exit %+v, %v; want a stop", e, err)
	}
}

// TestNodeOfAnEarlierLife checks that a node does not start the training for the record that the first node left before the
// engine requeued the job.
func TestNodeOfAnEarlierLife(t *testing.T) {
	shared := t.TempDir()
	n := &node{shared: shared, dir: rankDir(shared, 1), rank: 1, spec: spec{Nodes: 2}, state: nodeState{Life: "1"}}
	first := nodeState{Phase: running, Node: "a"}
	if err := writeJSON(shared, nodeFile, first); err != nil {
		t.Fatal(err)
	}
	if alive, begun, err := n.firstHasBegun(); alive || begun || err != nil {
		t.Errorf("first life: %v, %v, %v; want none", alive, begun, err)
	}
	first.Life, first.Meeting = "1", "a:1"
	if err := writeJSON(shared, nodeFile, first); err != nil {
		t.Fatal(err)
	}
	if alive, begun, err := n.firstHasBegun(); !alive || !begun || err != nil || n.state.Meeting != "a:1" {
		t.Errorf("same life: %v, %v, %v, %q", alive, begun, err, n.state.Meeting)
	}
	n.peers[0].seen = time.Now().Add(-2 * peerSilence) // the same beat since then
	n.lookAtPeers()
	if !n.peers[0].hasFailed() {
		t.Error("a silent node does not count as failed")
	}
	first.Beat++
	if err := writeJSON(shared, nodeFile, first); err != nil {
		t.Fatal(err)
	}
	if n.lookAtPeers(); n.peers[0].hasFailed() {
		t.Error("a node that shows a sign of life counts as failed")
	}
}

// TestClockOfTheNode checks that the time until a deadline does not depend on the clock of the node, and that a difference of
// the clocks is named.
func TestClockOfTheNode(t *testing.T) {
	dir := t.TempDir()
	n := &node{shared: dir, dir: dir, spec: spec{StopIn: time.Hour}}
	if err := writeJSON(dir, specFile, n.spec); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-20 * time.Minute) // the file system's time of the spec
	if err := os.Chtimes(filepath.Join(dir, specFile), before, before); err != nil {
		t.Fatal(err)
	}
	if d := n.stopAfter(); d > 41*time.Minute || d < 39*time.Minute {
		t.Errorf("limit %v, want 40 minutes", d)
	}
	n.spec.StopAfter = time.Minute
	if d := n.stopAfter(); d != time.Minute {
		t.Errorf("limit %v, want a minute", d)
	}
	for skew, want := range map[time.Duration]string{0: "", 20 * time.Second: "", 2 * time.Minute: ", whose clock is 2m0s ahead", -time.Minute: ", whose clock is 1m0s behind"} {
		if got := skewWords(skew); got != want {
			t.Errorf("%v: %q, want %q", skew, got, want)
		}
	}
}

// TestRanksInAnyDirectory: the name of the directory of a run may contain what is special in a pattern.
func TestRanksInAnyDirectory(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "runs [a-b]*")
	want := rankDir(shared, 1)
	if err := os.MkdirAll(want, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := rankDirs(shared); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q alone", got, want)
	}
}

// TestNodes: the nodes of a run are all of its last stretch that hold their places.
func TestNodes(t *testing.T) {
	dir := t.TempDir()
	check := func(when string, want ...string) {
		t.Helper()
		if got := Nodes(dir, false); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	submit := func(list ...engine.Stretch) {
		t.Helper()
		if err := writeJSON(dir, stretchesFile, stretches{fileSchema, list}); err != nil {
			t.Fatal(err)
		}
	}
	tell := func(n, rank int, s nodeState) {
		t.Helper()
		own := rankDir(launch.StretchDir(dir, n), rank)
		s.Schema = fileSchema
		if err := errors.Join(os.MkdirAll(own, 0o700), writeJSON(own, nodeFile, s)); err != nil {
			t.Fatal(err)
		}
	}
	check("before the first stretch")
	submit(engine.Stretch{N: 1})
	check("submitted")
	tell(1, 0, nodeState{Phase: ready, Node: "n0"})
	check("held", "n0")
	tell(1, 0, nodeState{Phase: running, Node: "n0"})
	tell(1, 1, nodeState{Phase: running, Node: "n1"})
	check("two nodes", "n0", "n1")
	tell(1, 0, nodeState{Phase: ended, Node: "n0"})
	check("one has ended", "n1")
	submit(engine.Stretch{N: 1, Ended: time.Now()})
	check("ended")
	if got := Nodes(dir, true); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"n0", "n1"}) {
		t.Errorf("those that held it: %v, want n0 and n1", got)
	}
	submit(engine.Stretch{N: 7, Nodes: []string{"n5"}, Ended: time.Now()})
	if got := Nodes(dir, true); !slices.Equal(got, []string{"n5"}) {
		t.Errorf("by the engine: %v, want n5", got)
	}
	submit(engine.Stretch{N: 1, Ended: time.Now()}, engine.Stretch{N: 2})
	tell(2, 0, nodeState{Phase: running, Node: "n2"})
	check("moved", "n2")
}
