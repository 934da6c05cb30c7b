package plan

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// checkMemory refuses a plan that takes more than limit bytes, before anything is allocated for it. It counts what a plan needs at least: variables
// that the scope does not have yet, feeds, and the temporaries that one op touches, for the op where these are most. No limit is 0.
func checkMemory(limit int64, request *Request, variables *variables, nodes []node) error {
	if limit <= 0 {
		return nil
	}
	var lasting int64
	most := func(total int64, op *program.Op, names []string) error {
		largest, bytes := "", int64(-1)
		for _, name := range names {
			if v := variables.named[name]; v != nil && v.bytes() > bytes {
				largest, bytes = name, v.bytes()
			}
		}
		return fault.E(fault.TooLarge, fault.On(op), fault.Var(largest), fault.Gotf("a plan of %d bytes or more, %d of them for this variable", total, bytes),
			fault.Wantf("at most %d", limit), fault.Hint("make batches smaller, or allow more memory if the machine has it"))
	}
	counted := map[*variable]bool{}
	for i := range nodes {
		op := nodes[i].op
		names := slices.Concat(op.InputNames(), op.OutputNames())
		var here int64
		seen := map[*variable]bool{}
		for _, name := range names {
			v := variables.named[name]
			if v == nil || seen[v] || counted[v] {
				continue
			}
			seen[v] = true
			switch v.place {
			case temporary:
				here = add(here, v.bytes())
			case own, fed, scoped:
				counted[v] = true
				if _, has := request.Scope.Find(name); v.place != scoped || !has {
					lasting = add(lasting, v.bytes())
				}
			}
		}
		if total := add(lasting, here); total > limit {
			return most(total, op, names)
		}
	}
	return nil
}

// add adds sizes and stops at the largest.
func add(a, b int64) int64 {
	if b < 0 || a > 1<<62-b {
		return 1 << 62
	}
	return a + b
}
