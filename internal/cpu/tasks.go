package cpu

// grain is how much work makes a task, in elementary operations: enough that
// waking a thread for it pays.
const grain = 1 << 13

// elements is how many things of a cost make a task.
func elements(cost int) int { return max(1, grain/max(1, cost)) }

// rangeOf is the longest range that over gives a task.
func rangeOf(n, cost int) int {
	tasks, _ := share(n, elements(cost))
	return (n + tasks - 1) / tasks
}

// over makes a step that runs f on ranges that together are 0 … n-1. cost is
// what one of the n takes, in elementary operations. What f computes for an
// element must not depend on the range that it is in.
func (c compiler) over(n, cost int, f func(from, to int, w *worker)) func() {
	tasks, bounds := share(n, elements(cost))
	if tasks == 1 {
		w := c.pool.workers[0]
		return func() { f(0, n, w) }
	}
	task := func(i int, w *worker) {
		from, to := bounds(i)
		f(from, to, w)
	}
	return func() { c.pool.each(tasks, task) }
}

// shards makes a step that runs f once a thread: for work whose results do not
// depend on how it is cut at all. Small work is not cut.
func (c compiler) shards(cost int, f func(shard, shards int, w *worker)) func() {
	n := len(c.pool.workers)
	if n == 1 || cost < 2*grain {
		w := c.pool.workers[0]
		return func() { f(0, 1, w) }
	}
	task := func(i int, w *worker) { f(i, n, w) }
	return func() { c.pool.each(n, task) }
}

// reserve sees to it that every worker's scratch memory will be large enough, so that
// no step allocates.
func (c compiler) reserve(floats, doubles int) {
	c.pool.floats, c.pool.doubles = max(c.pool.floats, floats), max(c.pool.doubles, doubles)
}

// sequence makes one step of several.
func sequence(steps ...func()) func() {
	return func() {
		for _, s := range steps {
			s()
		}
	}
}
