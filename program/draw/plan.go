package draw

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/edl-go/edl/program"
)

// A drawing is the content of a picture, before layout.
type drawing struct {
	blocks int
	nodes  []node
	edges  []edge
}

type node struct {
	block int
	text  string // from the program, any bytes
	tip   string
	color string
	op    bool
}

type edge struct {
	from, to int // indices of nodes
	dashed   bool
}

// value is one ellipse: a variable of a block between two writes.
type value struct {
	block int
	name  string
}

// Colors by role of an op, and of variables.
const (
	colorForward   = "#cfe2ff"
	colorBackward  = "#ffe0cc"
	colorOptimize  = "#d6f0d0"
	colorRPC       = "#e7d7f5"
	colorVariable  = "#ffffff"
	colorParameter = "#fff3b0"
)

// plan turns ops into boxes and values into ellipses.
func plan(p *program.Program) *drawing {
	d := &drawing{blocks: len(p.Blocks)}
	for _, b := range p.Blocks {
		current := map[value]int{}
		for i, op := range b.Ops {
			box := d.add(node{block: b.Index, text: op.Type, tip: fmt.Sprintf("op %d %s", i, op.Line()), color: roleColor(op.Role()), op: true})
			for _, name := range op.InputNames() {
				at := value{b.Index, name}
				if _, ok := current[at]; !ok {
					current[at] = d.add(variableNode(b, name))
				}
				d.edges = append(d.edges, edge{from: current[at], to: box})
			}
			for _, name := range op.OutputNames() {
				at := value{b.Index, name}
				current[at] = d.add(variableNode(b, name))
				d.edges = append(d.edges, edge{from: box, to: current[at]})
			}
		}
	}
	d.linkBlocks(p)
	return d
}

// linkBlocks adds an edge from each op to the first op of each block that it owns.
func (d *drawing) linkBlocks(p *program.Program) {
	boxes := make([][]int, len(p.Blocks))
	for i, n := range d.nodes {
		if n.op {
			boxes[n.block] = append(boxes[n.block], i)
		}
	}
	for _, b := range p.Blocks {
		for i, op := range b.Ops {
			for _, sub := range op.SubBlocks() {
				if int(sub) >= 0 && int(sub) < len(boxes) && len(boxes[sub]) > 0 {
					d.edges = append(d.edges, edge{from: boxes[b.Index][i], to: boxes[sub][0], dashed: true})
				}
			}
		}
	}
}

func (d *drawing) add(n node) int {
	d.nodes = append(d.nodes, n)
	return len(d.nodes) - 1
}

func variableNode(b *program.Block, name string) node {
	n := node{block: b.Index, text: name, tip: "not declared", color: colorVariable}
	v, ok := b.Find(name)
	if !ok {
		return n
	}
	n.tip = fmt.Sprintf("%s %v%v", v.Kind, v.DType, v.Dims)
	if v.IsParameter || v.Persistable {
		n.color = colorParameter
	}
	return n
}

func roleColor(role program.Role) string {
	switch {
	case role&(program.RoleRPC|program.RoleDist) != 0:
		return colorRPC
	case role&(program.RoleOptimize|program.RoleLRSched) != 0:
		return colorOptimize
	case role&program.RoleBackward != 0:
		return colorBackward
	}
	return colorForward
}

// maxLabel is how many bytes of a name a picture shows.
const maxLabel = 60

// label escapes a name to printable ASCII.
func label(name string) string {
	if len(name) > maxLabel {
		name = name[:maxLabel] + "..."
	}
	quoted := strconv.QuoteToASCII(name)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
