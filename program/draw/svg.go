// Package draw makes pictures of programs.
//
// A picture is laid out here, in rows as programs read: values above the ops that read them, those above what they write. No process is started.
// Names from a program are escaped labels and nothing else.
package draw

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// maxNodes and maxSlots bound a picture; nobody can read more.
const (
	maxNodes = 3000
	maxSlots = 500_000 // nodes, and rows that lines pass through
)

// SVG draws the program's blocks, each in a frame of its own: ops as boxes, colored by role, and variables as ellipses, parameters
// filled. A dashed edge leads from an op to the block that it owns. Each block shows a variable once per value: an op that writes a
// variable anew starts another ellipse, so the picture reads from top to bottom. The startup program is not in it; draw p.Startup for that.
// The same program gives the same bytes. A program of more than 3000 ops and values, or with too many lines between them, is refused
// with fault.TooLarge. SVG returns early when ctx ends.
func SVG(ctx context.Context, p *program.Program) ([]byte, error) {
	d := plan(p)
	if len(d.nodes) > maxNodes {
		return nil, tooLarge(fmt.Sprintf("a picture of %d nodes", len(d.nodes)), fmt.Sprintf("at most %d", maxNodes))
	}
	frames := make([]*frame, d.blocks)
	left := maxSlots
	for block := range frames {
		f := d.layered(block, left)
		if f == nil {
			return nil, tooLarge("a picture of too many long lines", fmt.Sprintf("lines through at most %d rows altogether", maxSlots))
		}
		if err := f.arrange(ctx); err != nil {
			return nil, fault.Wrap(fault.Canceled, "picture", err)
		}
		left -= len(f.slots)
		frames[block] = f
	}
	return d.write(frames), nil
}

func tooLarge(got, want string) error {
	return fault.E(fault.TooLarge, fault.Got(got), fault.Want(want), fault.Hint("prune the program to a target first"))
}
