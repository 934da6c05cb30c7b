package cluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
)

// Environment of this test binary when it runs as a coordinator that is paused.
const (
	childEndpoints = "EDL_CLUSTER_TEST_ETCD"
	childPrefix    = "EDL_CLUSTER_TEST_PREFIX"
	childDuration  = "EDL_CLUSTER_TEST_LEASE"
	childPause     = "EDL_CLUSTER_TEST_PAUSE"
)

const childLease = 2 * time.Second

// coordinate leads and commits one number after another until that fails: it tells its fence, every number that was committed, and at last the kind
// of the failure and whether Done was closed by then. After the number childPause it pauses by itself, until somebody lets it go on: then no commit is
// under way.
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
	s, done := r.State(m), m.(*membership).lease.(*etcdLease).ended
	for i := 1; ; i++ {
		if err := s.Commit(ctx, []Change{{"number", []byte(fmt.Sprint(i))}}); err != nil {
			select {
			case <-done:
				fmt.Println("end", fault.KindOf(err), "done")
			default:
				fmt.Println("end", fault.KindOf(err))
			}
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
