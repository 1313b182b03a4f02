package devcmd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// shop is the data behind the tools. Its methods are safe for concurrent use.
type shop struct {
	// pause is the duration of one step of a long report.
	pause time.Duration

	mu        sync.Mutex
	orders    []order
	customers []customer
	stock     map[string]item
}

type order struct {
	ID         string  `json:"orderId"`
	CustomerID string  `json:"customerId"`
	SKU        string  `json:"sku"`
	Quantity   int     `json:"quantity"`
	TotalUSD   float64 `json:"totalUsd"`
	Status     string  `json:"status" jsonschema:"open, shipped, late, delivered or refunded"`
	PlacedOn   string  `json:"placedOn" jsonschema:"date, YYYY-MM-DD"`
}

type customer struct {
	ID    string `json:"customerId"`
	Name  string `json:"name"`
	Email string `json:"email"`
	Phone string `json:"phone"`
	Card  string `json:"card" jsonschema:"card on file"`
	Since string `json:"since" jsonschema:"date, YYYY-MM-DD"`
}

type item struct {
	SKU       string  `json:"sku"`
	Title     string  `json:"title"`
	PriceUSD  float64 `json:"priceUsd"`
	OnHand    int     `json:"onHand"`
	Reserved  int     `json:"reserved"`
	Warehouse string  `json:"warehouse"`
}

// newShop returns made-up data: reserved domains, fictional phone numbers and
// the card number that payment tests use.
func newShop() *shop {
	s := &shop{
		pause: 250 * time.Millisecond,
		customers: []customer{
			{"C-1001", "Ada Brandt", "ada.brandt@example.com", "+1-202-555-0143", "4242 4242 4242 4242", "2023-02-11"},
			{"C-1002", "Noor Haddad", "noor@example.org", "+1-202-555-0178", "5555 5555 5555 4444", "2023-09-30"},
			{"C-1003", "Tomas Lind", "t.lind@example.net", "+1-202-555-0111", "4000 0566 5566 5556", "2024-06-02"},
			{"C-1004", "Mei Okafor", "mei.okafor@example.com", "+1-202-555-0165", "4242 4242 4242 4242", "2025-01-19"},
		},
		stock: map[string]item{
			"TENT-2P":  {"TENT-2P", "Two-person tent", 249, 14, 3, "Rotterdam"},
			"STOVE-1":  {"STOVE-1", "Canister stove", 59.5, 120, 11, "Rotterdam"},
			"BAG-40L":  {"BAG-40L", "Backpack, 40 litres", 139, 0, 0, "Newark"},
			"LAMP-HD":  {"LAMP-HD", "Head lamp", 34.9, 310, 42, "Newark"},
			"MAP-ALPS": {"MAP-ALPS", "Alpine map set", 28, 75, 1, "Rotterdam"},
		},
	}
	statuses := []string{"delivered", "shipped", "open", "late", "delivered", "shipped"}
	skus := []string{"LAMP-HD", "TENT-2P", "STOVE-1", "BAG-40L", "MAP-ALPS"}
	first := time.Date(2026, 8, 3, 0, 0, 0, 0, time.UTC)
	for i := range 24 {
		sku, quantity := skus[i%len(skus)], 1+i%3
		s.orders = append(s.orders, order{
			ID:         fmt.Sprintf("O-%d", 5001+i),
			CustomerID: s.customers[i%len(s.customers)].ID,
			SKU:        sku,
			Quantity:   quantity,
			TotalUSD:   float64(quantity) * s.stock[sku].PriceUSD,
			Status:     statuses[i%len(statuses)],
			PlacedOn:   first.AddDate(0, 0, 3*i).Format(time.DateOnly),
		})
	}
	return s
}

func (s *shop) findOrders(status, customerID string, limit int) []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []order{}
	for i := len(s.orders) - 1; i >= 0 && len(found) < limit; i-- {
		o := s.orders[i]
		if (status == "" || o.Status == status) && (customerID == "" || o.CustomerID == customerID) {
			found = append(found, o)
		}
	}
	return found
}

func (s *shop) order(id string) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.orders, func(o order) bool { return o.ID == id })
	if i < 0 {
		return order{}, fmt.Errorf("no order %q; search_orders lists them", id)
	}
	return s.orders[i], nil
}

func (s *shop) customer(id string) (customer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.customers, func(c customer) bool { return c.ID == id })
	if i < 0 {
		return customer{}, fmt.Errorf("no customer %q; orders name their customers", id)
	}
	return s.customers[i], nil
}

func (s *shop) item(sku string) (item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.stock[strings.ToUpper(sku)]
	if !ok {
		return item{}, fmt.Errorf("no article %q; orders name their articles", sku)
	}
	return it, nil
}

// refund marks an order as refunded; a second refund is rejected.
func (s *shop) refund(id string, amount float64) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.orders, func(o order) bool { return o.ID == id })
	switch {
	case i < 0:
		return order{}, fmt.Errorf("no order %q; search_orders lists them", id)
	case s.orders[i].Status == "refunded":
		return order{}, fmt.Errorf("order %s has already been refunded", id)
	case amount <= 0 || amount > s.orders[i].TotalUSD:
		return order{}, fmt.Errorf("the amount must be above 0 and at most %.2f", s.orders[i].TotalUSD)
	}
	s.orders[i].Status = "refunded"
	return s.orders[i], nil
}

// deleteCustomer permanently removes a customer and all of their orders.
func (s *shop) deleteCustomer(id string) (orders int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.customers, func(c customer) bool { return c.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("no customer %q", id)
	}
	s.customers = slices.Delete(s.customers, i, i+1)
	before := len(s.orders)
	s.orders = slices.DeleteFunc(s.orders, func(o order) bool { return o.CustomerID == id })
	return before - len(s.orders), nil
}

// sales sums up the orders of one month, given as YYYY-MM.
func (s *shop) sales(month string) (count int, total float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if strings.HasPrefix(o.PlacedOn, month) && o.Status != "refunded" {
			count++
			total += o.TotalUSD
		}
	}
	return count, total
}
