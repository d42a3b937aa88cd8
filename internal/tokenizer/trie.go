package tokenizer

// trie maps byte strings to values and finds those that a text begins with.
type trie struct{ nodes []trieNode }

// trieNode has children for the bytes from first on; 0 stands for no child.
type trieNode struct {
	children []int32
	value    int32 // plus 1; 0 stands for no value
	first    byte
}

func (t *trie) insert(key string, value int32) {
	if t.nodes == nil {
		t.nodes = make([]trieNode, 1)
	}
	at := int32(0)
	for i := range len(key) {
		next := t.nodes[at].child(key[i])
		if next == 0 {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, trieNode{})
			t.nodes[at].setChild(key[i], next)
		}
		at = next
	}
	t.nodes[at].value = value + 1
}

func (n *trieNode) child(b byte) int32 {
	if i := int(b) - int(n.first); i >= 0 && i < len(n.children) {
		return n.children[i]
	}
	return 0
}

func (n *trieNode) setChild(b byte, child int32) {
	if len(n.children) == 0 {
		n.first = b
	}
	if b < n.first {
		n.children = append(make([]int32, n.first-b), n.children...)
		n.first = b
	}
	for int(b)-int(n.first) >= len(n.children) {
		n.children = append(n.children, 0)
	}
	n.children[b-n.first] = child
}

// longest returns the length and the value of the longest key that the text begins with; length 0
// stands for none.
func (t *trie) longest(text string) (length int, value int32) {
	if t.nodes == nil {
		return 0, 0
	}
	at := int32(0)
	for i := range len(text) {
		if at = t.nodes[at].child(text[i]); at == 0 {
			break
		}
		if v := t.nodes[at].value; v > 0 {
			length, value = i+1, v-1
		}
	}
	return length, value
}
