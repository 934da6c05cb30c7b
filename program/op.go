package program

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// An Op is one operator: a type, variable names by slot, and attributes.
type Op struct {
	Type    string
	Inputs  map[string][]string // slot -> variable names; Empty stands for no variable
	Outputs map[string][]string
	Attrs
	IsTarget bool // Fluid's mark of an op that pruning keeps

	unknown []byte            // of OpDesc
	rest    map[string][]byte // unknown fields of slots and attributes, by a prefix and the name
}

// Reserved names of Fluid.
const (
	Empty          = "@EMPTY@"            // no variable, in a list of arguments
	GradSuffix     = "@GRAD"              // gradient of a variable
	RenameMark     = "@RENAME@"           // in the names of partial gradients, which a sum op adds
	LRDecayCounter = "@LR_DECAY_COUNTER@" // int64 step counter of learning-rate schedules
)

// GradName returns the name of the gradient of a variable.
func GradName(name string) string { return name + GradSuffix }

// In returns the first variable of an input slot, or "".
func (op *Op) In(slot string) string { return first(op.Inputs[slot]) }

// Out returns the first variable of an output slot, or "".
func (op *Op) Out(slot string) string { return first(op.Outputs[slot]) }

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// InputNames returns every variable that the op reads, in the order of slot names, without Empty.
func (op *Op) InputNames() []string { return names(op.Inputs) }

// OutputNames returns every variable that the op writes, in the order of slot names, without Empty.
func (op *Op) OutputNames() []string { return names(op.Outputs) }

func names(slots map[string][]string) []string {
	total := 0
	for _, list := range slots {
		total += len(list)
	}
	if total == 0 {
		return nil
	}
	all := make([]string, 0, total)
	for _, slot := range sortedKeys(slots) {
		for _, name := range slots[slot] {
			if name != Empty {
				all = append(all, name)
			}
		}
	}
	return all
}

// Clone returns a copy that shares nothing with op.
func (op *Op) Clone() *Op {
	c := &Op{Type: op.Type, IsTarget: op.IsTarget, unknown: op.unknown}
	c.Inputs, c.Outputs = cloneSlots(op.Inputs), cloneSlots(op.Outputs)
	if op.Attrs != nil {
		c.Attrs = make(map[string]Attr, len(op.Attrs))
		for name, a := range op.Attrs {
			c.Attrs[name] = CloneAttr(a)
		}
	}
	c.rest = maps.Clone(op.rest)
	return c
}

func cloneSlots(slots map[string][]string) map[string][]string {
	if slots == nil {
		return nil
	}
	c := make(map[string][]string, len(slots))
	for slot, args := range slots {
		c[slot] = slices.Clone(args)
	}
	return c
}

// RenameInput replaces a variable name in all input slots.
func (op *Op) RenameInput(from, to string) { rename(op.Inputs, from, to) }

// RenameOutput replaces a variable name in all output slots.
func (op *Op) RenameOutput(from, to string) { rename(op.Outputs, from, to) }

// rename leaves the lists as they are, because another op may have them, too: the gradient of an op reads what the op has written.
func rename(slots map[string][]string, from, to string) {
	for slot, args := range slots {
		if !slices.Contains(args, from) {
			continue
		}
		args = slices.Clone(args)
		for i := range args {
			if args[i] == from {
				args[i] = to
			}
		}
		slots[slot] = args
	}
}

// SetAttr sets an attribute.
func (op *Op) SetAttr(name string, value Attr) {
	if op.Attrs == nil {
		op.Attrs = Attrs{}
	}
	op.Attrs[name] = value
}

// A Role says what part of training an op belongs to. It is Fluid's op_role, a set of bits.
type Role int32

// Roles and their bits.
const (
	RoleForward  Role = 0
	RoleBackward Role = 1
	RoleOptimize Role = 2
	RoleRPC      Role = 4
	RoleDist     Role = 8
	RoleLRSched  Role = 16
	RoleLoss     Role = 256
)

// Attributes that every op may carry.
const (
	AttrRole      = "op_role"      // INT, a Role
	AttrRoleVar   = "op_role_var"  // STRINGS, pairs of parameter and gradient
	AttrCallstack = "op_callstack" // STRINGS, where user code built the op
	AttrNamescope = "op_namescope" // STRING
	AttrDevice    = "op_device"    // STRING
)

// Has reports whether r has all the given bits. Has(RoleForward) reports whether r has no bits besides RoleLoss.
func (role Role) Has(r Role) bool {
	if r == RoleForward {
		return role&^RoleLoss == 0
	}
	return role&r == r
}

// Role returns the op's role, RoleForward if the attribute is absent.
func (op *Op) Role() Role {
	v, _ := op.Int(AttrRole)
	return Role(v)
}

// SetRole sets the op's role.
func (op *Op) SetRole(r Role) { op.SetAttr(AttrRole, int32(r)) }

// RoleVars returns the parameter and the gradient that the op serves, pair after pair.
func (op *Op) RoleVars() [][2]string {
	flat, _ := op.Strs(AttrRoleVar)
	var pairs [][2]string
	for i := 0; i+1 < len(flat); i += 2 {
		pairs = append(pairs, [2]string{flat[i], flat[i+1]})
	}
	return pairs
}

// SetRoleVar sets the parameter and the gradient that the op serves.
func (op *Op) SetRoleVar(param, grad string) { op.SetAttr(AttrRoleVar, []string{param, grad}) }

// Line returns the file:line of user code that built the op, "" if the program does not say. For a program of Fluid's Python API it is the
// innermost line of the recorded stack outside of that API. The stack ends inside, and before Fluid 1.6 it begins there. What Line returns is one line of text, of at most
// mostLine bytes, whatever a file says.
func (op *Op) Line() string {
	stack, _ := op.Strs(AttrCallstack)
	line, _, _ := strings.Cut(lineOf(stack), "\n")
	if len(line) > mostLine {
		line = line[:mostLine] + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, line)
}

// mostLine bounds the bytes of a line of user code in a message.
const mostLine = 200

// lineOf returns file:line of a stack, and more if its one text is no frame.
func lineOf(stack []string) string {
	if len(stack) == 1 && !strings.Contains(stack[0], "\", line ") {
		return stack[0]
	}
	innermost := ""
	for _, frame := range stack {
		file, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(frame), "File \""), "\", line ")
		if !ok || strings.Contains(file, "paddle/") || strings.HasPrefix(file, "<") { // "<" begins the name of code without a file, such as that of a decorator
			continue
		}
		line, _, _ := strings.Cut(rest, ",")
		innermost = filepath.Base(file) + ":" + strings.TrimSpace(line)
		if strings.Contains(rest, "\n") { // the frame and its code are one text: of an old stack, which begins inside
			break
		}
	}
	return innermost
}

// SetLine sets the line of user code that built the op.
func (op *Op) SetLine(line string) {
	if line != "" {
		op.SetAttr(AttrCallstack, []string{line})
	}
}

// CallerLine returns the nearest caller, as directory/file:line. It skips packages of this module whose import path starts with one of the given
// prefixes. The directory has one level only, so that the same sources build the same program on every machine.
func CallerLine(inside ...string) string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if frame.File != "" && !within(frame, inside) {
			return fmt.Sprintf("%s/%s:%d", filepath.Base(filepath.Dir(frame.File)), filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// module is the import path of the folder root.
const module = "github.com/edl-go/edl"

var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return path.Dir(path.Dir(file))
}()

// within reports whether the source of a frame belongs to one of the packages. Their own tests count as user code. The file decides, because a
// closure of a package that is inlined into user code has the name of the user's function.
func within(frame runtime.Frame, inside []string) bool {
	folder, ok := strings.CutPrefix(path.Dir(frame.File), root)
	if !ok || strings.HasSuffix(frame.File, "_test.go") {
		return false
	}
	for _, prefix := range inside {
		if rest, ok := strings.CutPrefix(module+folder, prefix); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// FaultSource implements fault.Source.
func (op *Op) FaultSource() (opType, line string) { return op.Type, op.Line() }
