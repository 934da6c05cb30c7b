package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

// A coordinator is paused anywhere in its work, another one takes its place, and the first is resumed. What the first does then has no effect. Its
// lease may have ended by its own clock, or only in etcd; the other one may have committed something, or nothing.
func TestCoordinatorIsPausedAndReplaced(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	for i, c := range []pauseCase{{1, false, false}, {17, false, false}, {5, true, false}, {5, true, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			c.run(&home{T: t, prefix: Prefix(fmt.Sprint("replaced-", i)), handle: openAt(t, server.Endpoints)}, server)
		})
	}
}

// pauseCase is a coordinator in another process that is paused and replaced.
type pauseCase struct {
	after   int  // commits
	unaware bool // the lease ends in etcd, and not by the clock of the paused process
	idle    bool // the other coordinator commits only after the first has been resumed
}

func (c pauseCase) run(h *home, server *Embedded) {
	t := h.T
	lease := childLease
	if c.unaware {
		lease = longLease
	}
	old := startChild(t, h.prefix, server.Endpoints(), lease)
	old.commits(c.after)
	old.signal(syscall.SIGSTOP)
	r := h.open()
	if c.unaware {
		h.ok(r.RevokeLease(bounded(t), coordinator, 0))
	}
	s := r.State(h.member(r.LeadCoordinator(bounded(t), "parent:1")))
	before, err := s.Load(t.Context())
	h.ok(err)
	young := []Change{{"young", []byte("1")}}
	if !c.idle {
		h.ok(s.Commit(t.Context(), young))
	}
	old.signal(syscall.SIGCONT)
	last, why := old.end()
	// It may have been paused within a commit, whose outcome it does not know.
	if want := fault.Fenced.String(); why != want && why != fault.Unavailable.String() {
		t.Errorf("%+v: the old coordinator ended with %q, want %q", c, why, want)
	}
	if c.idle {
		h.ok(s.Commit(t.Context(), young))
	}
	h.entries(s, map[string]string{"number": string(before["number"]), "young": "1"})
	var told, kept int
	fmt.Sscan(last, &told)
	fmt.Sscan(string(before["number"]), &kept)
	if kept < c.after || told > kept {
		t.Errorf("%+v: number %d is kept, %d was committed by all accounts", c, kept, told)
	}
}

// A coordinator is paused for longer than its lease while something keeps the lease alive in etcd. It holds the lock, whatever its clock says, and goes
// on.
func TestCoordinatorIsPausedForItsLease(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	prefix := Prefix("overslept")
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), Logger: zapTo(context.Background(), nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := startChild(t, prefix, server.Endpoints(), childLease, childPause+"=3")
	c.commits(3)
	lock := func() (revision int64, lease clientv3.LeaseID) {
		r, err := client.Get(bounded(t), prefix+lockKey)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		return r.Kvs[0].CreateRevision, clientv3.LeaseID(r.Kvs[0].Lease)
	}
	fence, lease := lock()
	renewals, err := client.KeepAlive(bounded(t), lease)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range renewals {
		}
	}()
	number := func() string {
		r, err := client.Get(bounded(t), prefix+stateKey+"number")
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		return string(r.Kvs[0].Value)
	}
	// When another lease of the same duration ends that begins now, the lease of the child is over by its clock.
	hourglass(t, client, childLease)
	before := number()
	c.signal(syscall.SIGCONT)
	c.commits(2)
	if still, _ := lock(); still != fence {
		t.Error("the lock is not what it was: nothing is shown")
	}
	if after := number(); after == before {
		t.Errorf("number %s is still the last", after)
	}
}

// hourglass returns when etcd has ended a lease of the duration.
func hourglass(t *testing.T, client *clientv3.Client, duration time.Duration) {
	t.Helper()
	ctx := bounded(t)
	lease, err := client.Grant(ctx, int64(duration/time.Second))
	if err != nil {
		t.Fatal(err)
	}
	put, err := client.Put(ctx, "/hourglass", "", clientv3.WithLease(lease.ID))
	if err != nil {
		t.Fatal(err)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range client.Watch(watching, "/hourglass", clientv3.WithRev(put.Header.Revision+1)) {
		if len(r.Events) > 0 {
			return
		}
	}
	t.Fatal(errors.Join(ctx.Err(), errors.New("the lease never ended")))
}

// Environment of this test binary when it runs as a coordinator that is paused.
const (
	childEndpoints = "EDL_CLUSTER_TEST_ETCD"
	childPrefix    = "EDL_CLUSTER_TEST_PREFIX"
	childDuration  = "EDL_CLUSTER_TEST_LEASE"
	childPause     = "EDL_CLUSTER_TEST_PAUSE"
)

// childLease is the lease of a child whose lease has to end by its own clock.
const childLease = 3 * time.Second

// coordinate leads and commits one number after another until a commit fails. It prints its fence, every number that was committed, and at last the
// kind of the failure and whether Done was closed. After the number childPause it pauses itself until SIGCONT; no commit is under way then.
func coordinate() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	go func() { // the parent holds the other end for as long as it lives
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	lease, err := time.ParseDuration(os.Getenv(childDuration))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := Open(ctx, Config{Endpoints: strings.Split(os.Getenv(childEndpoints), ","), Prefix: os.Getenv(childPrefix), Lease: lease})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer r.Close()
	m, err := r.LeadCoordinator(ctx, "child:1")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("fence", m.Fence())
	s := r.State(m)
	for i := 1; ; i++ {
		if err := s.Commit(ctx, []Change{{"number", []byte(fmt.Sprint(i))}}); err != nil {
			fmt.Println("end", fault.KindOf(err))
			return 0
		}
		fmt.Println("committed", i)
		if os.Getenv(childPause) == fmt.Sprint(i) {
			pause()
		}
	}
}

// pause stops this process until it is sent SIGCONT.
func pause() {
	on := make(chan os.Signal, 1)
	signal.Notify(on, syscall.SIGCONT)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // the caller may run on for a moment
	<-on
}

// child is a coordinator in a process of its own.
type child struct {
	*testing.T
	process *exec.Cmd
	lines   *bufio.Scanner
}

func startChild(t *testing.T, prefix string, endpoints []string, lease time.Duration, environment ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{T: t, process: exec.Command(self)}
	c.process.Env = append(append(os.Environ(), childEndpoints+"="+strings.Join(endpoints, ","), childPrefix+"="+prefix,
		childDuration+"="+lease.String()), environment...)
	c.process.Stderr = os.Stderr
	in, err := c.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
	})
	return c
}

// line returns what the child says next.
func (c *child) line() string {
	c.Helper()
	if !c.lines.Scan() {
		c.Fatal("the child has ended: ", c.lines.Err())
	}
	return c.lines.Text()
}

// end reads until the child ends, and returns the last number that it has committed, and why it ended.
func (c *child) end() (last, why string) {
	c.Helper()
	for {
		what, rest, _ := strings.Cut(c.line(), " ")
		switch what {
		case "committed":
			last = rest
		case "end":
			return last, rest
		}
	}
}

func (c *child) signal(s syscall.Signal) {
	c.Helper()
	if err := c.process.Process.Signal(s); err != nil {
		c.Fatal(err)
	}
}

// commits waits until the child has committed n times.
func (c *child) commits(n int) {
	c.Helper()
	for range n + 1 { // the fence, too
		c.line()
	}
}
