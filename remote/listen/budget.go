package listen

import (
	"context"
	"path"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
)

// What callers may hold of a listener at a time, each user and all together. A listener without these bounds would end with one caller.
const (
	maxCalls         = 4096    // calls under way, such as those that watch a job
	maxCallsOfUser   = 512     // of one user
	maxUploads       = 2 << 30 // bytes of jobs and states that have not arrived whole
	maxUploadsOfUser = 1 << 30 // of one user: no less than maxSpec and MaxState
	maxRoles         = 1024    // roles of all jobs that run, where Config says nothing
	maxPlans         = 2       // programs that are decoded, checked and divided at a time
)

// over is the error of a budget that is used up.
func over(budget, who string, most int, raise string) error {
	return fault.E(fault.TooLarge, fault.At("listener"), fault.Got(budget+" of "+who+" beyond the budget"), fault.Wantf("at most %d", most), fault.Hint(raise))
}

// A budget counts what callers hold. It is safe for concurrent use.
type budget struct {
	mu        sync.Mutex
	calls     int
	of        map[string]int // by user
	uploads   int
	uploadsOf map[string]int // by user
	decoding  sync.Mutex     // held by who decodes an upload that is whole, which takes its size again, twice, for a moment
}

// enter takes a place for a call. leave gives it back. Admins have the places of all.
func (b *budget) enter(c caller) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch bounded := !c.access.Covers(credential.Admin); {
	case bounded && b.of[c.user] >= maxCallsOfUser:
		return nil, over("calls under way", "the user "+fault.Quote(c.user), maxCallsOfUser, "end some")
	case b.calls >= maxCalls:
		return nil, over("calls under way", "all users", maxCalls, "end some")
	}
	if b.of == nil {
		b.of = map[string]int{}
	}
	b.calls++
	b.of[c.user]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls--
		if b.of[c.user]--; b.of[c.user] == 0 {
			delete(b.of, c.user)
		}
	}, nil
}

// planInTurn makes the role programs of a job when few others are being made, so that large programs take their memory one after the other.
func planInTurn(ctx context.Context, m *Manager, spec *job.JobSpec) (*plan, error) {
	select {
	case m.plans <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.E(fault.Canceled, fault.At("listener"), fault.Gotf("%d programs that are being made ready before this one", maxPlans),
			fault.Cause(context.Cause(ctx)), fault.Hint("submit again"))
	}
	defer func() { <-m.plans }()
	return newPlan(ctx, spec)
}

// rolesOf is how many roles a job may have at a time.
func rolesOf(spec *job.JobSpec) int {
	return 1 + int(spec.TrainersMax) + int(max(spec.Pservers, spec.PserversMax))*int(1+spec.Standby)
}

// admitRoles refuses a job whose roles are too many beside those that run. Users who are no admins may have half of the budget each. m.mu is held.
func admitRoles(m *Manager, j *Job, access credential.Access) error {
	all, own := rolesOf(j.spec), rolesOf(j.spec)
	for _, other := range m.jobs {
		if other.Ended() {
			continue
		}
		roles := rolesOf(other.spec)
		all += roles
		if other.owner == j.owner {
			own += roles
		}
	}
	const raise = "wait for the end of other jobs, ask for fewer roles, or start the listener with a higher --max-roles"
	switch {
	case all > m.cfg.MaxRoles:
		return over("roles of jobs that run", "all users", m.cfg.MaxRoles, raise)
	case !access.Covers(credential.Admin) && own > (m.cfg.MaxRoles+1)/2:
		return over("roles of jobs that run", "the user "+fault.Quote(j.owner), (m.cfg.MaxRoles+1)/2, raise)
	}
	return nil
}

// Around checks who calls a method of a Server, and what he holds already, and notes the call in the audit log. wire.Around calls it.
func (m *Manager) Around(ctx context.Context, method string, handle func(context.Context) error) error {
	return audited(ctx, m, method, func(ctx context.Context) error {
		if err := mayCall(ctx, method, m.cfg.Tokens); err != nil {
			return err
		}
		if path.Base(method) == "StartRole" || path.Dir(method) == "/"+rpc.Keeper_ServiceDesc.ServiceName { // a listener of the authority: its own budget counts the roles
			return handle(ctx)
		}
		leave, err := m.budget.enter(callerOf(ctx))
		if err != nil {
			return err
		}
		defer leave()
		return handle(ctx)
	})
}
