// go run . BOOTSTRAP GROUP TOPIC RECORDS: two members of the consumer protocol (franz-go) read a topic of four partitions;
// the second one joins, and leaves. The last line says how many records were read, and how many twice.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type member struct {
	client *kgo.Client
	mu     sync.Mutex
	owned  map[int32]bool
	seen   []string
	errs   []string
}

func start(bootstrap, group, topic string, opts ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}}
	all := append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.change(got[topic], true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.change(got[topic], false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.change(got[topic], false) }),
	}, opts...)
	client, err := kgo.NewClient(all...)
	if err != nil {
		panic(err)
	}
	m.client = client
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			m.mu.Lock()
			for _, e := range fetches.Errors() {
				m.errs = append(m.errs, e.Err.Error())
			}
			fetches.EachRecord(func(r *kgo.Record) { m.seen = append(m.seen, string(r.Value)) })
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *member) change(partitions []int32, add bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		if add {
			m.owned[p] = true
		} else {
			delete(m.owned, p)
		}
	}
}

func (m *member) counts() (int, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owned), len(m.seen)
}

func until(what string, ok func() bool) {
	began := time.Now()
	for !ok() {
		if time.Since(began) > 120*time.Second {
			fmt.Println("TIMEOUT", what)
			os.Exit(1)
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Printf("%s: %.1f s\n", what, time.Since(began).Seconds())
}

func produce(bootstrap, topic string, first, count int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		panic(err)
	}
	for n := first; n < first+count; n++ {
		client.Produce(context.Background(), kgo.StringRecord(strconv.Itoa(n)), func(_ *kgo.Record, err error) {
			if err != nil {
				panic(err)
			}
		})
	}
	client.Flush(context.Background())
	client.Close()
}

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	n, _ := strconv.Atoi(os.Args[4])
	produce(bootstrap, topic, 0, n)
	a := start(bootstrap, group, topic)
	until("the first has all 4 partitions and the records", func() bool { o, s := a.counts(); return o == 4 && s == n })
	b := start(bootstrap, group, topic)
	until("two partitions each", func() bool { x, _ := a.counts(); y, _ := b.counts(); return x == 2 && y == 2 })
	produce(bootstrap, topic, n, n)
	until("the next records", func() bool { _, x := a.counts(); _, y := b.counts(); return x+y == 2*n })
	if err := a.client.CommitUncommittedOffsets(context.Background()); err != nil {
		panic(err)
	}
	b.client.CommitUncommittedOffsets(context.Background())
	b.client.LeaveGroupContext(context.Background())
	b.client.Close()
	until("the first has all again", func() bool { o, _ := a.counts(); return o == 4 })
	produce(bootstrap, topic, 2*n, n)
	until("the last records", func() bool { _, x := a.counts(); _, y := b.counts(); return x+y >= 3*n })
	a.client.Close()
	seen := map[string]int{}
	for _, v := range append(a.seen, b.seen...) {
		seen[v]++
	}
	twice := 0
	for _, c := range seen {
		if c > 1 {
			twice++
		}
	}
	fmt.Println("records", len(seen), "of", 3*n, "read twice", twice, "errors", a.errs, b.errs)
}
