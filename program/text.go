package program

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// TextOptions choose how much Text shows.
type TextOptions struct {
	Full bool // all names, elements and bytes; without it long lists and strings are cut
}

// Text writes the program, and then its startup program, for people to read: per block the variables in the order of their names, then one op a
// line as
//
//	3  Out=fc_0.tmp_0 = mul(X=x, Y=fc_0.w_0) {x_num_col_dims=1} @model/fit.go:12
//
// with its position in the block before it. Equal programs give equal text. Names from outside cannot break a terminal: what is
// not plain is quoted and escaped. The program need not be one that Verify accepts. The error is that of w.
func (p *Program) Text(w io.Writer, options TextOptions) error {
	buffered := bufio.NewWriter(w)
	t := texter{w: buffered, full: options.Full}
	t.program("program", p)
	if p.Startup != nil {
		t.printf("\n")
		t.program("startup program", p.Startup)
	}
	return buffered.Flush()
}

type texter struct {
	w    *bufio.Writer // keeps the first error until Flush
	full bool
}

func (t *texter) printf(format string, args ...any) { fmt.Fprintf(t.w, format, args...) }

func (t *texter) program(title string, p *Program) {
	t.printf("%s", title)
	if hash, err := p.Hash(); err == nil {
		t.printf(" %s", hash.Short())
	}
	t.printf(", version %d\n", p.Version)
	for _, b := range p.Blocks {
		t.block(b)
	}
}

func (t *texter) block(b *Block) {
	t.printf("block %d", b.Index)
	if b.Parent != NoBlock {
		t.printf(", parent %d", b.Parent)
	}
	if b.Forward != NoBlock {
		t.printf(", gradient of %d", b.Forward)
	}
	t.printf("\n")
	t.variables(b)
	for i, op := range b.Ops {
		t.printf("  %3d  %s\n", i, t.op(op))
	}
}

// maxColumn is the width up to which the types of variables are lined up.
const maxColumn = 40

func (t *texter) variables(b *Block) {
	column := 0
	for name := range b.vars {
		if n := len(t.name(name)); n > column && n <= maxColumn {
			column = n
		}
	}
	for _, name := range sortedKeys(b.vars) {
		v := b.vars[name]
		words := []string{t.varType(v)}
		for _, flag := range []struct {
			set  bool
			word string
		}{
			{v.IsParameter, "parameter"},
			{v.Persistable && !v.IsParameter, "persistable"},
			{v.NeedCheckFeed, "data"},
			{v.StopGradient, "stop_gradient"},
		} {
			if flag.set {
				words = append(words, flag.word)
			}
		}
		t.printf("  %-*s  %s\n", column, t.name(name), strings.Join(words, " "))
	}
}

func (t *texter) varType(v *Var) string {
	if v.Kind != Reader {
		return describe(v)
	}
	fields := make([]string, len(v.Fields))
	for i := range v.Fields {
		fields[i] = describe(&v.Fields[i])
	}
	return "reader of (" + strings.Join(cut(fields, t.full), ", ") + ")"
}

func (t *texter) op(op *Op) string {
	var b strings.Builder
	if out := t.slots(op.Outputs); out != "" {
		b.WriteString(out + " = ")
	}
	b.WriteString(t.name(op.Type) + "(" + t.slots(op.Inputs) + ")")
	if attrs := t.attrs(op); attrs != "" {
		b.WriteString(" {" + attrs + "}")
	}
	if op.IsTarget {
		b.WriteString(" target")
	}
	if line := op.Line(); line != "" {
		b.WriteString(" @" + t.plain(line))
	}
	return b.String()
}

// slots shows one variable as X=x and several as X=[x, y].
func (t *texter) slots(slots map[string][]string) string {
	var parts []string
	for _, slot := range sortedKeys(slots) {
		args := slots[slot]
		shown := make([]string, len(args))
		for i, name := range args {
			shown[i] = t.name(name)
		}
		value := "[" + strings.Join(cut(shown, t.full), ", ") + "]"
		if len(args) == 1 {
			value = shown[0]
		}
		parts = append(parts, t.name(slot)+"="+value)
	}
	return strings.Join(parts, ", ")
}

func (t *texter) attrs(op *Op) string {
	var parts []string
	for _, name := range sortedKeys(op.Attrs) {
		if name != AttrCallstack {
			parts = append(parts, t.name(name)+"="+t.attr(op.Attrs[name]))
		}
	}
	return strings.Join(parts, ", ")
}
