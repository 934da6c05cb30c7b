// Package pickle reads the files of parameters that Paddle writes with Python's pickle: NAME.pdparams and NAME.pdopt, of paddle.save and fluid.save.
//
// Such a file is a program for a stack machine that may call any function of Python. This package has only the opcodes which build numbers, texts, tuples,
// lists and dictionaries, and makes by itself the few objects that such files hold: arrays of NumPy, their types, and dictionaries with an order. It calls nothing by a name
// of the file, and refuses every other name and opcode. Libraries for Go allocate as much as a length in the file says; here memory grows with the bytes that are there.
//
// Files in reading order: pickle.go (what a file holds), machine.go (opcodes), objects.go (arrays).
package pickle

import (
	"bufio"
	"fmt"
	"io"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Is reports whether a file begins as a pickle of protocol 2 to 5. No tensor, program or archive begins so.
func Is(head []byte) bool {
	return len(head) >= 2 && head[0] == opProto && head[1] >= 2 && head[1] <= 5
}

// Names of entries of the dictionary that are no tensors.
const (
	namesKey = "StructuredToParameterName@@" // a dictionary from the keys of layers to the names of their parameters
	partsKey = "UnpackBigParamInfor@@"       // of arrays of more than 1 GiB, which protocols 2 and 3 hold in parts
)

// Limits bounds what Read accepts, beside the size of the file. A zero field means its default.
type Limits struct {
	Values int // on the stack, in the memo and in containers, each; default 1 Mi
}

// Read reads the tensors of a file of size bytes, by the names of their parameters. Other entries, such as the state of a schedule, are left out. Types that no kernel knows become their
// tensor.Wider. Memory grows with the bytes that arrive, and is about twice the largest array beside the tensors.
func Read(r io.Reader, size int64, limits Limits) (map[string]*tensor.Tensor, error) {
	if limits.Values <= 0 {
		limits.Values = 1 << 20
	}
	m := &machine{r: bufio.NewReaderSize(r, 1<<16), size: size, limits: limits}
	top, err := m.run()
	if err != nil {
		return nil, err
	}
	d, ok := top.(*dict)
	if !ok {
		return nil, m.refuse("a pickled "+nameOf(top), "a dictionary of arrays")
	}
	renamed := map[string]string{}
	for _, item := range d.items {
		names, ok := item.value.(*dict)
		switch key, _ := item.key.(string); {
		case key == partsKey:
			return nil, m.refuse("an array that was cut into parts", "arrays in one piece")
		case key == namesKey && ok:
			for _, n := range names.items {
				key, _ := n.key.(string)
				if name, ok := n.value.(string); ok {
					renamed[key] = name
				}
			}
		}
	}
	all := map[string]*tensor.Tensor{}
	for _, item := range d.items {
		key, _ := item.key.(string)
		name, value := key, item.value
		if pair, ok := value.(tuple); ok && len(pair) == 2 { // the name of a parameter, and its array
			if own, ok := pair[0].(string); ok {
				name, value = own, pair[1]
			}
		}
		if to, ok := renamed[key]; ok {
			name = to
		}
		a, ok := value.(*array)
		if !ok || name == "" {
			continue
		}
		if a.value == nil {
			return nil, fault.E(fault.Corrupt, fault.Var(name), fault.Got("an array without elements"), fault.Want("a whole file"))
		}
		if all[name] == nil { // two layers may share a parameter
			all[name] = a.value
		}
	}
	return all, nil
}

// refuse says what was found at the byte that is read next.
func (m *machine) refuse(got, want string) error {
	return fault.E(fault.Unsupported, fault.At(m.place()), fault.Got(got), fault.Want(want),
		fault.Hint(`in Python, safetensors.numpy.save_file(paddle.load("NAME.pdparams", return_numpy=True), "NAME.safetensors") writes a file that edl reads`))
}

// corrupt is refuse for what no writer makes.
func (m *machine) corrupt(got string) error {
	return fault.E(fault.Corrupt, fault.At(m.place()), fault.Got(got), fault.Want("a pickled dictionary of arrays"))
}

func (m *machine) place() string { return fmt.Sprintf("byte %d", m.at) }
