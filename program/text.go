package program

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// TextOptions choose how much Text shows.
type TextOptions struct {
	Full bool // show all names, elements and bytes; false cuts long lists and strings
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

// maxColumn is the largest width of the column of names that Text aligns types to.
const maxColumn = 40

func (t *texter) variables(b *Block) {
	column := 0
	for name := range b.vars {
		if n := len(t.name(name)); n > column && n <= maxColumn {
			column = n
		}
	}
	for _, name := range sortedKeys(b.vars) {
		t.printf("  %-*s  %s\n", column, t.name(name), t.variable(b.vars[name]))
	}
}

// variable is the type of a variable, and what else it is.
func (t *texter) variable(v *Var) string {
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
	return strings.Join(words, " ")
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
	if line := op.Line(); line != "" {
		return t.call(op) + " @" + t.plain(line)
	}
	return t.call(op)
}

// call is an op without the line of its user.
func (t *texter) call(op *Op) string {
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

// What Text shows of long lists and strings when it is not asked for all.
const (
	maxListShown   = 8
	maxStringShown = 80
)

// cut shortens a list and says by how much.
func cut(items []string, full bool) []string {
	if full || len(items) <= maxListShown {
		return items
	}
	return append(items[:maxListShown:maxListShown], fmt.Sprintf("... %d more", len(items)-maxListShown))
}

// name shows a usual name as it is, and any other name quoted.
func (t *texter) name(s string) string {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("_.@/-:", rune(c)) {
			return t.quote(s)
		}
	}
	if s == "" || len(s) > maxStringShown && !t.full {
		return t.quote(s)
	}
	return s
}

// plain is name for text that may hold spaces, parentheses and the like.
func (t *texter) plain(s string) string {
	if quoted := t.quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

func (t *texter) quote(s string) string {
	if t.full || len(s) <= maxStringShown {
		return strconv.QuoteToASCII(s)
	}
	return strconv.QuoteToASCII(s[:maxStringShown]) + "..."
}

func (t *texter) attr(a Attr) string {
	switch v := a.(type) {
	case string:
		return t.quote(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case BlockIndex:
		return fmt.Sprintf("block %d", int32(v))
	case []string:
		return list(t, v, t.quote)
	case []float32:
		return list(t, v, func(x float32) string { return t.attr(x) })
	case []int32:
		return list(t, v, show)
	case []int64:
		return list(t, v, show)
	case []float64:
		return list(t, v, show)
	case []bool:
		return list(t, v, show)
	case []BlockIndex:
		return list(t, v, func(x BlockIndex) string { return t.attr(x) })
	case Opaque:
		return fmt.Sprintf("%s of %d bytes", AttrTypeName(v), len(v.raw))
	case int32, int64, bool, float64:
		return fmt.Sprint(v)
	}
	return AttrTypeName(a)
}

func show[T any](x T) string { return fmt.Sprint(x) }

// list shows at most the wanted number of elements, and formats no others.
func list[T any](t *texter, values []T, element func(T) string) string {
	n := len(values)
	if !t.full {
		n = min(n, maxListShown)
	}
	shown := make([]string, n, n+1)
	for i := range n {
		shown[i] = element(values[i])
	}
	if n < len(values) {
		shown = append(shown, fmt.Sprintf("... %d more", len(values)-n))
	}
	return "[" + strings.Join(shown, ", ") + "]"
}
