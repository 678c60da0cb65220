"""What questions of a language have in common, as the constants of `threadhouse.retrieval.query_centres`.

``python -m bench.query_centres`` embeds the questions below with the offline model and prints the constants.

The questions are made up: eighty plain ones about work and the world, forty in each language, each pair a translation. None is of
any test set, and none was changed after it was first measured. Their mean is what a question is before it is about anything.
"""

from __future__ import annotations

import base64
import textwrap

import numpy as np

from bench.quality_tasks import strip_marks
from threadhouse.stores.embedders import open_embedder
from threadhouse.stores.settings import Settings

PLAIN_QUESTIONS: tuple[tuple[str, str], ...] = (
    (
        "Quy trình hoàn tiền cho khách hàng gồm những bước nào?",
        "Which steps does the refund process for customers have?",
    ),
    (
        "Ai là người chịu trách nhiệm phê duyệt hợp đồng này?",
        "Who is responsible for approving this contract?",
    ),
    (
        "Khi nào chính sách nghỉ phép mới có hiệu lực?",
        "When does the new leave policy take effect?",
    ),
    (
        "Vì sao hệ thống thanh toán bị gián đoạn vào tuần trước?",
        "Why was the payment system interrupted last week?",
    ),
    ("Thời hạn lưu trữ dữ liệu cá nhân là bao lâu?", "How long may personal data be kept?"),
    (
        "Nhân viên thử việc được hưởng những quyền lợi gì?",
        "What benefits do employees on probation receive?",
    ),
    (
        "Làm thế nào để khôi phục bản sao lưu của cơ sở dữ liệu?",
        "How can a backup of the database be restored?",
    ),
    (
        "Mức phạt khi giao hàng chậm là bao nhiêu phần trăm?",
        "What percentage is the penalty for late delivery?",
    ),
    (
        "Bộ phận nào kiểm tra chất lượng sản phẩm trước khi xuất xưởng?",
        "Which department checks product quality before shipment?",
    ),
    ("Khách hàng có thể đổi trả sản phẩm ở đâu?", "Where can customers return a product?"),
    ("Thuế giá trị gia tăng được tính như thế nào?", "How is value added tax calculated?"),
    (
        "Có bao nhiêu người tham gia khóa đào tạo an toàn lao động?",
        "How many people attended the safety training course?",
    ),
    (
        "Điều kiện để được cấp giấy phép xây dựng là gì?",
        "What are the conditions for being granted a building permit?",
    ),
    (
        "Con sông dài nhất trong khu vực tên là gì?",
        "What is the name of the longest river in the region?",
    ),
    (
        "Ai đã phát minh ra thiết bị này và vào năm nào?",
        "Who invented this device, and in which year?",
    ),
    ("Nguyên nhân chính dẫn đến cuộc chiến tranh là gì?", "What was the main cause of the war?"),
    (
        "Loài động vật này sống ở môi trường nào?",
        "In what kind of environment does this animal live?",
    ),
    (
        "Thành phố nào là trung tâm kinh tế của đất nước?",
        "Which city is the economic centre of the country?",
    ),
    ("Bệnh này lây truyền qua những con đường nào?", "In which ways is this disease transmitted?"),
    (
        "Cầu thủ nào ghi nhiều bàn thắng nhất trong trận đấu?",
        "Which player scored the most goals in the match?",
    ),
    (
        "Nhà thờ được xây dựng theo phong cách kiến trúc nào?",
        "In what architectural style was the church built?",
    ),
    (
        "Năng lượng mặt trời được chuyển thành điện năng ra sao?",
        "How is solar energy turned into electricity?",
    ),
    (
        "Trường đại học được thành lập vào thế kỷ nào?",
        "In which century was the university founded?",
    ),
    (
        "Chính phủ đã thông qua đạo luật nào để bảo vệ môi trường?",
        "Which law did the government pass to protect the environment?",
    ),
    ("Tại sao dân số của vùng này giảm mạnh?", "Why did the population of this area fall sharply?"),
    ("Bộ phim được quay ở những địa điểm nào?", "At which locations was the film shot?"),
    (
        "Công ty đã đầu tư bao nhiêu tiền vào dự án?",
        "How much money did the company invest in the project?",
    ),
    (
        "Ngôn ngữ nào được nhiều người sử dụng nhất ở đây?",
        "Which language is spoken by most people here?",
    ),
    (
        "Phản ứng hóa học này tạo ra những chất gì?",
        "Which substances does this chemical reaction produce?",
    ),
    ("Ai giữ chức chủ tịch hội đồng quản trị hiện nay?", "Who is the current chair of the board?"),
    ("Khí hậu của hòn đảo có đặc điểm gì?", "What is characteristic of the climate of the island?"),
    ("Thuật toán này giải quyết bài toán gì?", "Which problem does this algorithm solve?"),
    ("Nhà vua qua đời trong hoàn cảnh nào?", "Under what circumstances did the king die?"),
    (
        "Lỗi này ảnh hưởng đến những phiên bản phần mềm nào?",
        "Which software versions are affected by this bug?",
    ),
    (
        "Người lao động được báo trước bao nhiêu ngày khi chấm dứt hợp đồng?",
        "How many days' notice does an employee get when the contract ends?",
    ),
    ("Bảo tàng trưng bày những tác phẩm của ai?", "Whose works does the museum show?"),
    (
        "Tôn giáo nào có nhiều tín đồ nhất trong nước?",
        "Which religion has the most followers in the country?",
    ),
    ("Đơn vị đo lường này dùng để đo đại lượng nào?", "Which quantity is measured with this unit?"),
    ("Ai có quyền truy cập vào máy chủ sản xuất?", "Who has access to the production server?"),
    (
        "Kết quả kiểm thử của phiên bản mới ra sao?",
        "What were the test results of the new version?",
    ),
)
"""Vietnamese and English."""


def main() -> None:
    """Print the constants for the offline model of this home."""
    embedder = open_embedder(Settings.from_environment().home)
    questions = {
        "vi": [vietnamese for vietnamese, _ in PLAIN_QUESTIONS],
        "vi-unmarked": [strip_marks(vietnamese) for vietnamese, _ in PLAIN_QUESTIONS],
        "en": [english for _, english in PLAIN_QUESTIONS],
    }
    print(f'    "{embedder.space.space_id}": {{')
    for language, texts in questions.items():
        centre = np.mean([embedder.embed_query(text).data[0] for text in texts], axis=0)
        encoded = base64.b64encode(centre.astype("<f2").tobytes()).decode()
        print(f'        "{language}": (')
        print("\n".join(f'            "{line}"' for line in textwrap.wrap(encoded, 96)))
        print("        ),")
    print("    },")


if __name__ == "__main__":
    main()
