package jobspec

import (
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/proto/job"
)

// PolicyMessage is what a role is told of the policy of its job; nil: there is none.
func PolicyMessage(p *policy.Policy) *job.Policy {
	if p == nil {
		return nil
	}
	places := func(p policy.Places) *job.Places { return &job.Places{All: p.All, List: p.List} }
	return &job.Policy{Read: places(p.Read), Write: places(p.Write), Own: p.Own, Guarded: p.Guarded}
}

// PolicyOf is the inverse of PolicyMessage.
func PolicyOf(m *job.Policy) *policy.Policy {
	if m == nil {
		return nil
	}
	places := func(m *job.Places) policy.Places { return policy.Places{All: m.GetAll(), List: m.GetList()} }
	return &policy.Policy{Read: places(m.Read), Write: places(m.Write), Own: m.Own, Guarded: m.Guarded}
}
