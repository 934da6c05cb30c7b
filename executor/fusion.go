package executor

import (
	"slices"

	"github.com/edl-go/edl/executor/internal/plan"
)

// A Fusion names one way in which a plan does the work of a program with fewer passes over memory and fewer dispatches than one for
// each op. No fusion changes a bit of any result.
type Fusion = plan.Fusion

// The fusions of a plan.
const (
	FuseUnread    = plan.FuseUnread    // leaves out what nobody reads, such as metrics that are not fetched
	FuseViews     = plan.FuseViews     // lets copies, such as those of reshape2, share the elements of what they copy
	FuseEpilogues = plan.FuseEpilogues // lets products add a bias and apply an activation to what they have just computed
	FuseFanIn     = plan.FuseFanIn     // lets products add their result to the gradients that it is summed with
	FuseRows      = plan.FuseRows      // runs ops that hand rows on to each other, such as a softmax and its loss, range by range
	FuseUpdates   = plan.FuseUpdates   // runs the updates of small parameters in one step
)

// Fusions returns all of them.
func Fusions() []Fusion { return slices.Clone(plan.Fusions) }

// WithoutFusion leaves fusions out, to compare or to look for a mistake. Without any name it leaves out all.
func WithoutFusion(names ...Fusion) Option {
	if len(names) == 0 {
		names = Fusions()
	}
	return func(l *Local) { l.without = append(l.without, names...) }
}
