"""What the order service knows when it opens: two late orders, house rules, and facts around them."""

from __future__ import annotations

from typing import Any, Final

LOST_ORDER: Final = "ord_17"
KILLED_ORDER: Final = "ord_23"

ORDERS: Final[dict[str, dict[str, Any]]] = {
    LOST_ORDER: {
        "state": "delayed", "days_late": 6, "article": "Desk lamp, brass", "sku": "lamp_b", "total": 49.9,
        "customer": "Ines Moreau", "shipment_id": "shp_5",
    },
    KILLED_ORDER: {
        "state": "delayed", "days_late": 9, "article": "Oak shelf, 80 cm", "sku": "shelf_80", "total": 120.0,
        "customer": "Tomasz Nowak", "shipment_id": "shp_8",
    },
}  # fmt: skip

POLICIES: Final[dict[str, str]] = {
    "late delivery": "More than five days late: refund the order in full, once.",
    "damaged goods": "Damaged on arrival: replace, or refund in full against a photo.",
    "returns": "Unused articles may be returned within 30 days.",
    "price change": "No refund of a difference after 14 days.",
}

FACTS: Final[dict[str, dict[str, Any]]] = {
    "items": {LOST_ORDER: [{"sku": "lamp_b", "units": 1}], KILLED_ORDER: [{"sku": "shelf_80", "units": 2}]},
    "address": {LOST_ORDER: "Rue des Lilas 4, Lyon", KILLED_ORDER: "ul. Lipowa 12, Gdynia"},
    "history": {LOST_ORDER: ["ordered", "paid", "packed", "delayed"], KILLED_ORDER: ["ordered", "paid", "delayed"]},
    "invoice": {LOST_ORDER: "inv_1017", KILLED_ORDER: "inv_1023"},
    "payment": {LOST_ORDER: "card", KILLED_ORDER: "bank transfer"},
    "contact": {LOST_ORDER: "ines@customer.example", KILLED_ORDER: "tomasz@customer.example"},
    "language": {LOST_ORDER: "fr", KILLED_ORDER: "pl"},
    "gift": {LOST_ORDER: False, KILLED_ORDER: True},
    "carrier": {"shp_5": "Blue Van", "shp_8": "Northern Parcel"},
    "place": {"shp_5": "sorting centre Dijon", "shp_8": "ferry terminal Karlskrona"},
    "promise": {"shp_5": "2026-03-02", "shp_8": "2026-02-27"},
    "weight": {"shp_5": 2.1, "shp_8": 14.0},
    "signature": {"shp_5": True, "shp_8": False},
    "customs": {"shp_5": "none", "shp_8": "none"},
    "stock": {"lamp_b": 14, "shelf_80": 0},
    "price": {"lamp_b": 49.9, "shelf_80": 60.0},
    "size": {"lamp_b": "18 x 18 x 42 cm", "shelf_80": "80 x 24 x 3 cm"},
    "material": {"lamp_b": "brass", "shelf_80": "oak"},
    "warranty": {"lamp_b": "24 months", "shelf_80": "60 months"},
    "supplier": {"lamp_b": "Lumen Works", "shelf_80": "Holm Timber"},
}
