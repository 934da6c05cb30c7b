package plan

// A Fusion names one way in which a plan does the work of a program with fewer passes over memory and fewer dispatches than one for each op. None
// changes a bit: ranges of loops give the bits of the whole (ops.Loop), and pieces move only past pieces that they share nothing with.
type Fusion string

// The fusions of a plan.
const (
	// FuseUnread leaves out what nobody reads.
	FuseUnread Fusion = "unread"
	// FuseViews lets copies such as reshape2 share the elements of what they copy.
	FuseViews Fusion = "views"
	// FuseEpilogues lets products and convolutions add a bias and apply a function to blocks of their result as these become complete.
	FuseEpilogues Fusion = "epilogues"
	// FuseFanIn lets products add their result to the gradients that it is summed with.
	FuseFanIn Fusion = "fan-in"
	// FuseRows runs loops that hand rows on to each other range by range: conv2d with its pooling, mul with an activation whose operand is read
	// elsewhere, too; softmax with its loss; gradients with those of activations and with sums of gradients.
	FuseRows Fusion = "rows"
	// FuseUpdates runs the updates of small parameters in one step.
	FuseUpdates Fusion = "updates"
)

// Fusions lists all of them.
var Fusions = []Fusion{FuseUnread, FuseViews, FuseEpilogues, FuseFanIn, FuseRows, FuseUpdates}

// fuse turns the pieces into steps.
func (c *compiler) fuse() error {
	if !c.without(FuseUnread) {
		c.dropUnread()
	}
	if !c.without(FuseViews) {
		c.shareViews()
	}
	if !c.without(FuseEpilogues) {
		c.takeEpilogues()
	}
	if !c.without(FuseFanIn) {
		c.foldSums()
	}
	update := len(c.pieces)
	for i, p := range c.pieces {
		if p.isUpdate() {
			update = i
			break
		}
	}
	p := c.plan
	p.steps = c.rows(nil, c.pieces[:update])
	p.update = len(p.steps)
	for rest := c.pieces[update:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].optimizes() == rest[0].optimizes() {
			n++
		}
		if rest[0].optimizes() {
			p.steps = append(p.steps, c.updates(rest[:n])...)
		} else {
			p.steps = c.rows(p.steps, rest[:n])
		}
		rest = rest[n:]
	}
	c.pieces = c.pieces[:0]
	for i := range p.steps {
		s := &p.steps[i]
		s.first = len(c.pieces)
		c.pieces = append(c.pieces, s.pieces...)
	}
	p.pieces = c.pieces
	return nil
}

func (c *compiler) without(f Fusion) bool {
	for _, w := range c.Without {
		if w == f {
			return true
		}
	}
	return false
}

// single makes a step of one piece.
func single(p *piece) step {
	s := step{pieces: []*piece{p}}
	if p.isLoop() {
		s.chains = []chain{{pieces: s.pieces}}
	}
	return s
}
