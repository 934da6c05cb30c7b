package remote_test

import (
	"context"
	"io"
	"os"
	"syscall"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
)

// env is what every child is given.
func (r *rig) env(behaviour string) []string {
	return []string{behaviourEnv + "=" + behaviour, lifeEnv + "=" + r.port.Addr().String(), pauseEnv + "=" + r.port.Addr().String()}
}

// hold makes roles wait for release when they are launched.
func (r *rig) hold(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.held[name] = make(chan struct{})
	}
}

// release launches a role that was held.
func (r *rig) release(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.held[name])
}

// Start implements launch.Launcher.
func (r *rig) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	inner := launch.Processes{Binary: os.Args[0], Env: r.env("role")}
	name := role.Name(spec)
	r.mu.Lock()
	held := r.held[name]
	if spec.Start > 0 {
		held = nil
	}
	r.mu.Unlock()
	var h launch.Handle
	var err error
	if held == nil {
		h, err = inner.Start(ctx, spec, log)
	} else {
		h = startLater(ctx, held, func() (launch.Handle, error) { return inner.Start(ctx, spec, log) })
	}
	if err != nil {
		return nil, err
	}
	r.change(func() { r.handles[name] = h })
	return h, nil
}

// handle returns a role, waiting until it is launched.
func (r *rig) handle(name string) (h launch.Handle) {
	r.t.Helper()
	r.await("the launch of "+name, func() bool {
		h = r.handles[name]
		return h != nil
	})
	return h
}

// signal sends a signal to a role.
func (r *rig) signal(name string, s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.handle(name).Pid(), s); err != nil {
		r.t.Fatalf("%v to %s: %v", s, name, err)
	}
}
