package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// Processes starts each role as a child process, which must call ChildSpec.
type Processes struct {
	Binary string
	Opened *Binary  // what the children start from, in the place of what is at the path Binary by then; nil: that
	Args   []string // the job and the role are appended, for people who look at the list of processes
	Env    []string // added to what a role gets of this process's environment, as "NAME=value"
	Cgroup *Cgroup  // in which roles that are bounded get groups of their own; nil: they get none
}

var _ Launcher = Processes{}

// Start starts the child. It does not wait for the child to read its spec.
func (p Processes) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (Handle, error) {
	if ctx.Err() != nil {
		return nil, fault.E(fault.Canceled, fault.At(nameOf(spec)), fault.Cause(context.Cause(ctx)))
	}
	message, err := encodeSpec(spec)
	if err != nil {
		return nil, err
	}
	limits := jobspec.DeadlinesOf(spec.Spec)
	h := &process{name: nameOf(spec), member: memberOf(spec), out: newLines(log), done: make(chan struct{})}
	h.cmd = exec.Command(p.Binary, append(slices.Clone(p.Args), spec.Job, memberOf(spec).ID())...)
	if p.Opened != nil {
		path, err := p.Opened.executable()
		if err != nil {
			return nil, fault.Wrap(fault.KindOf(err), nameOf(spec), err)
		}
		h.cmd.Path, h.cmd.Err = path, nil
	}
	h.cmd.Env = slices.Concat(environment(os.Environ()), threadsOf(spec), boundsEnv(spec), p.Env)
	h.cmd.Stdout, h.cmd.Stderr = h.out, h.out
	h.cmd.WaitDelay = limits.Output
	ownGroup(h.cmd)
	reported, err := h.begin()
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, nameOf(spec), err)
	}
	endFirst(h.cmd.Process.Pid)
	group, err := p.Cgroup.add(spec, h.cmd.Process.Pid)
	if err != nil {
		_ = h.cmd.Process.Kill()
		_ = reported.Close()
		_ = h.cmd.Wait()
		return nil, err
	}
	go h.watchMemory(spec, ownMemory)
	// The pipe stays open until Wait closes it. When the child ends before it has read its spec, its exit is reported and not the error of this Write.
	written := make(chan struct{})
	h.writing.Lock()
	go func() {
		defer close(written)
		defer h.writing.Unlock()
		_, _ = h.stdin.Write(message)
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		if err := h.reports.read(reported); err != nil {
			fmt.Fprintln(h.out, err) // nothing more that the role reports is known
		}
		_ = reported.Close() // further reports of the role fail
	}()
	unwatch := context.AfterFunc(ctx, func() { h.Stop(limits.LauncherStop) })
	go func() {
		err := h.cmd.Wait()
		unwatch()
		<-written
		late := time.AfterFunc(limits.Output, func() { _ = reported.Close() })
		<-read
		late.Stop()
		h.out.Flush()
		if took, over := group.end(); over {
			h.over.CompareAndSwap(nil, &overBound{overMemory(spec, took)})
		}
		h.err = h.outcome(err)
		close(h.done)
	}()
	return h, nil
}

// from starts the children from another binary.
func (p Processes) from(b *Binary) Launcher {
	p.Binary, p.Opened = b.Path(), b
	return p
}

// begin starts the process. It returns the pipe from which its reports come.
func (h *process) begin() (reported *os.File, err error) {
	reported, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ours.Close() // the child has its own
	number, err := pass(h.cmd, ours)
	if err == nil {
		h.cmd.Env = append(h.cmd.Env, reportEnv+"="+number)
		h.stdin, err = h.cmd.StdinPipe()
	}
	if err == nil {
		err = startWithSlack(h.cmd)
	}
	if err != nil {
		_ = reported.Close()
	}
	return reported, err
}

type process struct {
	reports
	name    string
	member  cluster.Member
	cmd     *exec.Cmd
	out     *lines
	writing sync.Mutex // to stdin
	stdin   io.WriteCloser
	stopped atomic.Bool
	over    atomic.Pointer[overBound] // why it was ended that has taken too much; nil: it has not
	done    chan struct{}
	err     error // valid when done is closed
}

func (h *process) Wait() error {
	<-h.done
	return h.err
}

// Stop sends SIGTERM, and SIGKILL after grace.
func (h *process) Stop(grace time.Duration) {
	h.stopped.Store(true)
	_ = terminate(h.cmd.Process) // fails only when it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-h.done:
		return
	case <-timer.C:
	}
	_ = h.cmd.Process.Kill()
	<-h.done
}

// Kill sends SIGKILL.
func (h *process) Kill() {
	_ = h.cmd.Process.Kill() // fails only when it has ended
	<-h.done
}

func (h *process) Node() string { return "" }
func (h *process) Pid() int     { return h.cmd.Process.Pid }

// outcome turns the end of the process into the error of Wait.
func (h *process) outcome(err error) error {
	state := h.cmd.ProcessState
	if state == nil {
		return fault.Wrap(fault.Internal, h.name, err)
	}
	if state.Success() {
		return nil
	}
	if over := h.over.Load(); over != nil && state.ExitCode() < 0 { // it may have ended otherwise just before
		return over.err
	}
	if told := h.failure(); told != nil && state.ExitCode() > 0 {
		return named(h.name, h.member, fault.Kind(told.Kind), wire.FaultOf(told))
	}
	f := fault.E(KindOfExit(state.ExitCode()), fault.At(h.name), fault.Got(state.String()), fault.Want("exit status 0"))
	if h.stopped.Load() && state.ExitCode() < 0 {
		f.Kind = fault.Canceled
	}
	if crash := h.out.Crash(); crash != "" && (state.ExitCode() == crashStatus || state.ExitCode() < 0) {
		f.Got, f.Hint = "a crash: "+state.String(), "it began with "+fault.Quote(crash)
	} else if last := h.out.Last(); last != "" {
		f.Hint = "its last line: " + fault.Quote(last)
	}
	return f
}

// crashStatus is the exit code of a process that the Go runtime ends because of a panic, a signal, or a lack of memory. It is also what edl exits with
// after a mistake of its user. But a role reports why it failed, so a role that exits with this code and reports nothing has crashed.
const crashStatus = 2

// KindOfExit returns the kind of the exit code of a role that has not reported why it failed. A code that no kind has, that of a crash, and -1, which
// stands for a signal, make a lost member: the role may be started again.
func KindOfExit(code int) fault.Kind {
	for _, kind := range []fault.Kind{fault.Internal, fault.VerifyFailed, fault.Canceled, fault.Fenced, fault.Drained} {
		if kind.ExitCode() == code {
			return kind
		}
	}
	return fault.LostMember
}
