package cluster

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/edl-go/edl/fault"
)

// Limits of one transaction of State. Those of etcd are 128 operations and 1.5 MiB.
const (
	MaxChanges = 120
	MaxBytes   = 1 << 20 // of keys and values
	maxKey     = 512     // bytes of a relative key
)

// A batch is a commit under way.
type batch struct {
	parts []txn  // without conditions
	next  int    // the first that is not known to be durable
	tried bool   // an attempt at it has not been answered
	token string // of that attempt
}

// newBatch cuts changes into transactions. It copies the values.
func newBatch(prefix string, changes []Change) (*batch, error) {
	b := &batch{}
	for from := 0; ; {
		size, to := 0, from
		for ; to < len(changes) && to-from < MaxChanges; to++ {
			n := len(prefix) + len(changes[to].Key) + len(changes[to].Value)
			if size+n > MaxBytes && to > from {
				break
			}
			size += n
		}
		t, err := part(prefix, changes[from:to])
		if err != nil {
			return nil, err
		}
		b.parts = append(b.parts, t)
		if from = to; from == len(changes) {
			return b, nil
		}
	}
}

// part makes one transaction, in which a key may stand only once: its last change counts.
func part(prefix string, changes []Change) (txn, error) {
	last := map[string]int{}
	for i, c := range changes {
		if err := checkKey(c.Key); err != nil {
			return txn{}, err
		}
		if n := len(prefix) + len(c.Key) + len(c.Value); n > MaxBytes {
			return txn{}, fault.E(fault.TooLarge, fault.At(prefix+c.Key), fault.Gotf("an entry of %d bytes", n),
				fault.Wantf("at most %d", MaxBytes))
		}
		last[c.Key] = i
	}
	var t txn
	for i, c := range changes {
		switch {
		case last[c.Key] != i:
		case c.Value == nil:
			t.deletes = append(t.deletes, prefix+c.Key)
		default:
			t.puts = append(t.puts, put{key: prefix + c.Key, value: string(c.Value)})
		}
	}
	return t, nil
}

func checkKey(key string) error {
	odd := strings.ContainsFunc(key, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) })
	if key == "" || len(key) > maxKey || odd || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") {
		return fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("key "+fault.Quote(key)),
			fault.Wantf("names separated by '/', at most %d bytes", maxKey))
	}
	return nil
}

// same reports whether the changes of b are those of other.
func (b *batch) same(other *batch) bool { return reflect.DeepEqual(b.parts, other.parts) }
