"""What the order service knows when it opens: two late orders, their shipments, house rules, and facts around them."""

from __future__ import annotations

from typing import Any, Final

ORDERS_URL: Final = "COUNTERFOIL_DEMO_ORDERS_URL"
"""The variable of the environment that says where it listens."""
LATE_ORDER: Final = "ord_17"
OTHER_ORDER: Final = "ord_23"

ORDERS: Final[dict[str, dict[str, Any]]] = {
    LATE_ORDER: {
        "state": "delayed", "days_late": 6, "article": "Desk lamp, brass", "sku": "lamp_b", "total": 49.9,
        "shipment_id": "shp_5",
        "contacts": [
            {"name": "Ines", "email": "ines@customer.example"},
            {"name": "Luc", "email": "luc@customer.example"},
            {"name": "Claire", "email": "claire@neighbour.example"},
        ],
    },
    OTHER_ORDER: {
        "state": "delayed", "days_late": 9, "article": "Oak shelf, 80 cm", "sku": "shelf_80", "total": 120.0,
        "shipment_id": "shp_8", "contacts": [{"name": "Tomasz", "email": "tomasz@customer.example"}],
    },
}  # fmt: skip

SHIPMENTS: Final[dict[str, dict[str, Any]]] = {
    "shp_5": {"late": True, "carrier": "Blue Van", "place": "sorting centre Dijon"},
    "shp_8": {"late": True, "carrier": "Northern Parcel", "place": "ferry terminal Karlskrona"},
}

POLICIES: Final[dict[str, str]] = {
    "late delivery": "More than five days late: refund the order in full, once.",
    "damaged goods": "Damaged on arrival: replace, or refund in full against a photo.",
    "returns": "Unused articles may be returned within 30 days.",
    "price change": "No refund of a difference after 14 days.",
}

FACTS: Final[dict[str, dict[str, Any]]] = {
    "items": {LATE_ORDER: [{"sku": "lamp_b", "units": 1}], OTHER_ORDER: [{"sku": "shelf_80", "units": 2}]},
    "address": {LATE_ORDER: "Rue des Lilas 4, Lyon", OTHER_ORDER: "ul. Lipowa 12, Gdynia"},
    "history": {LATE_ORDER: ["ordered", "paid", "packed", "delayed"], OTHER_ORDER: ["ordered", "paid", "delayed"]},
    "invoice": {LATE_ORDER: "inv_1017", OTHER_ORDER: "inv_1023"},
    "payment": {LATE_ORDER: "card", OTHER_ORDER: "bank transfer"},
    "contact": {LATE_ORDER: "ines@customer.example", OTHER_ORDER: "tomasz@customer.example"},
    "language": {LATE_ORDER: "fr", OTHER_ORDER: "pl"},
    "gift": {LATE_ORDER: False, OTHER_ORDER: True},
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
