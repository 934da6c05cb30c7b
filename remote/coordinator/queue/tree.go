package queue

// key orders what a tree holds: by its first number, then by the second.
type key [2]int64

func (k key) less(than key) bool { return k[0] < than[0] || k[0] == than[0] && k[1] < than[1] }

// tree is an ordered map that is never changed in place: put and delete return another one that shares most of its nodes. It is a treap
// whose priorities are a function of the keys, so that its shape depends on nothing but what it holds.
type tree[V any] struct {
	root *node[V]
	len  int
}

type node[V any] struct {
	key         key
	value       V
	left, right *node[V]
}

// priority mixes the bits of a key (the finalizer of splitmix64), so that keys in sequence do not make a list of the tree.
func (k key) priority() uint64 {
	x := uint64(k[0])*0x9e3779b97f4a7c15 ^ uint64(k[1])
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t tree[V]) get(k key) (v V, ok bool) {
	for n := t.root; n != nil; {
		switch {
		case k.less(n.key):
			n = n.left
		case n.key.less(k):
			n = n.right
		default:
			return n.value, true
		}
	}
	return v, false
}

func (t tree[V]) has(k key) bool {
	_, ok := t.get(k)
	return ok
}

func (t tree[V]) put(k key, v V) tree[V] {
	low, _, high, found := t.root.split(k)
	n := t.len
	if !found {
		n++
	}
	return tree[V]{root: merge(merge(low, &node[V]{key: k, value: v}), high), len: n}
}

func (t tree[V]) delete(k key) tree[V] {
	low, _, high, found := t.root.split(k)
	if !found {
		return t
	}
	return tree[V]{root: merge(low, high), len: t.len - 1}
}

// first returns the entry with the lowest key.
func (t tree[V]) first() (k key, v V, ok bool) {
	for k, v := range t.from(key{-1 << 63, -1 << 63}) {
		return k, v, true
	}
	return k, v, false
}

// from goes through the entries whose keys are not below k, in order.
func (t tree[V]) from(k key) func(func(key, V) bool) {
	return func(yield func(key, V) bool) { t.root.ascend(k, yield) }
}

func (n *node[V]) ascend(from key, yield func(key, V) bool) bool {
	if n == nil {
		return true
	}
	if n.key.less(from) {
		return n.right.ascend(from, yield)
	}
	return n.left.ascend(from, yield) && yield(n.key, n.value) && n.right.ascend(from, yield)
}

// split returns what lies below k and above it.
func (n *node[V]) split(k key) (low *node[V], value V, high *node[V], found bool) {
	switch {
	case n == nil:
		return nil, value, nil, false
	case k.less(n.key):
		l, v, h, ok := n.left.split(k)
		return l, v, &node[V]{key: n.key, value: n.value, left: h, right: n.right}, ok
	case n.key.less(k):
		l, v, h, ok := n.right.split(k)
		return &node[V]{key: n.key, value: n.value, left: n.left, right: l}, v, h, ok
	}
	return n.left, n.value, n.right, true
}

// merge joins two trees. All keys of the first are below those of the second.
func merge[V any](low, high *node[V]) *node[V] {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	case low.key.priority() > high.key.priority():
		return &node[V]{key: low.key, value: low.value, left: low.left, right: merge(low.right, high)}
	}
	return &node[V]{key: high.key, value: high.value, left: merge(low, high.left), right: high.right}
}
