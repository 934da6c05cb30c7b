package kernel

import "github.com/edl-go/edl/tensor"

// A Tree holds the children of the nodes of a tree, which count from 1, and what a walk through it needs. Its memory serves one tree after another.
type Tree struct {
	First    []int32 // of each node, and one more: its first child in Children
	Children []int32
	Visited  []int32 // of each node: the walk that has seen it
	Stack    []int32 // nodes to visit, and their depths
	walk     int32
}

// NewTree returns a tree of up to so many nodes and edges. memory has TreeMemory elements.
func NewTree(memory []int32, nodes, edges int) Tree {
	take := func(n int) []int32 {
		part := memory[:n]
		memory = memory[n:]
		return part
	}
	return Tree{First: take(nodes + 2), Children: take(edges), Visited: take(nodes + 1), Stack: take(2 * nodes)}
}

// TreeMemory returns the memory of a tree of up to so many nodes and edges.
func TreeMemory(nodes, edges int) int { return (nodes + 2) + edges + (nodes + 1) + 2*nodes }

// Read takes the edges of a tree, pairs of a node and its child, up to the first pair with a 0. It returns how many nodes there are, one more than all pairs without a 0, and the
// first number that is no node of the memory, 0 if there is none.
func (t *Tree) Read(edges []int32) (nodes int, bad int32) {
	most := int32(len(t.Visited) - 1)
	clear(t.First)
	clear(t.Visited)
	t.walk, nodes = 0, 1
	end := -1
	for i := 0; i+1 < len(edges); i += 2 {
		if edges[i] != 0 && edges[i+1] != 0 {
			nodes++
		} else if end < 0 {
			end = i
		}
	}
	if end < 0 {
		end = len(edges) / 2 * 2
	}
	for i := 0; i < end; i += 2 {
		for _, node := range edges[i : i+2] {
			if node < 1 || node > most {
				return nodes, node
			}
		}
		t.First[edges[i]+1]++
	}
	for i := 1; i < len(t.First); i++ {
		t.First[i] += t.First[i-1]
	}
	for i := 0; i < end; i += 2 { // behind the children that came before, which Visited counts
		parent := edges[i]
		t.Children[t.First[parent]+t.Visited[parent]] = edges[i+1]
		t.Visited[parent]++
	}
	clear(t.Visited)
	return nodes, 0
}

// Window calls do for each node of the tree below root, root first, that lies less than depth levels deeper: with how far it is up (eta_t), to the left (eta_l) and to the right (eta_r),
// as Fluid's tree_conv weighs it (Mou et al. 2014).
func (t *Tree) Window(root int32, depth int, do func(node int32, up, left, right float64)) {
	t.walk++
	t.Visited[root] = t.walk
	do(root, 1, 0, 0)
	t.Stack[0], t.Stack[1] = root, 0
	for n := 1; n > 0; {
		n--
		node, level := t.Stack[2*n], int(t.Stack[2*n+1])+1
		if level >= depth {
			continue
		}
		children := t.Children[t.First[node]:t.First[node+1]]
		for i, child := range children {
			if t.Visited[child] == t.walk {
				continue
			}
			t.Visited[child] = t.walk
			up, place := float64(depth-level)/float64(depth), 0.5
			if len(children) > 1 {
				place = float64(i) / float64(len(children)-1)
			}
			left := (1 - up) * place
			do(child, up, left, (1-up)*(1-left))
			t.Stack[2*n], t.Stack[2*n+1] = child, int32(level)
			n++
		}
	}
}

// TreeWindow writes what the filter of tree_conv sees of a window: for each of width elements of a node three sums over the nodes, weighed by left, right and up. features has
// the rows of the nodes.
func TreeWindow[T tensor.Float](t *Tree, root int32, depth int, out, features []T, width int) {
	clear(out[:3*width])
	t.Window(root, depth, func(node int32, up, left, right float64) {
		for i, v := range features[int(node-1)*width:][:width] {
			out[3*i] += T(left) * v
			out[3*i+1] += T(right) * v
			out[3*i+2] += T(up) * v
		}
	})
}

// TreeWindowGrad adds the gradient of a window to those of the rows of its nodes.
func TreeWindowGrad[T tensor.Float](t *Tree, root int32, depth int, dfeatures, dwindow []T, width int) {
	t.Window(root, depth, func(node int32, up, left, right float64) {
		d := dfeatures[int(node-1)*width:][:width]
		for i := range d {
			d[i] += T(left)*dwindow[3*i] + T(right)*dwindow[3*i+1] + T(up)*dwindow[3*i+2]
		}
	})
}
